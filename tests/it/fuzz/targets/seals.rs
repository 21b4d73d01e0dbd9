//! Seals, acquisition ids and keyrings: what was not made here for this resource, this position and this owner is never valid.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use fencegate::domain::lease::AcquisitionId;
use fencegate::domain::position::{Position, PresentedToken};
use fencegate::domain::resource::ResourceName;
use fencegate::domain::seal::{Keyring, SealKey, SealVerdict};
use uuid::Uuid;
use zeroize::Zeroizing;

use super::{Met, Target, text};

pub(super) const TARGET: Target = Target {
    name: "seals",
    run,
    longest: 512,
    words: &[
        "\n",
        "0.1",
        "1.107",
        ".",
        "pages/a",
        "AAAA",
        "_-",
        "=",
        "+",
        "/",
        "01010101:",
        "#",
        ",",
        "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE",
    ],
    meets: &[
        "sealed",
        "changed",
        "made up",
        "keyring read",
        "keyring refused",
        "other resource",
        "other position",
    ],
};

const DATABASE: Uuid = Uuid::from_u128(7);

fn ring() -> Keyring {
    let key = |id: u8| SealKey::new([id; 4], Zeroizing::new([id ^ 0x55; 32]));
    let lines = format!("{}\n{}\n", key(2).reveal_line().as_str(), key(1).reveal_line().as_str());
    Keyring::parse(&lines).expect("two keys")
}

/// A name, a position, and a text that is taken for a seal, for a keyring and for the places where a right seal is changed.
fn run(data: &[u8], met: &mut Met) {
    let mut parts = data.splitn(3, |byte| *byte == b'\n');
    let mut next = || parts.next().unwrap_or_default();
    let (name, position, rest) = (next(), next(), next());
    keyring(rest, met);
    let (Some(name), Some(position)) = (text(name), text(position)) else { return };
    let (Ok(resource), Ok(position)) = (ResourceName::parse(name), Position::parse(position)) else { return };
    let ring = ring();
    let nonce = [u8::try_from(rest.len() % 256).expect("a byte"); 16];
    let id = ring.acquisition_id(ring.active().id(), &resource, position, &nonce).expect("an acquisition");
    assert_eq!(AcquisitionId::parse(id.reveal()).as_ref(), Ok(&id), "an id reads back");
    assert_eq!(id.bucket(), resource.bucket());
    let token = ring.seal(DATABASE, &resource, position, &id.hash()).expect("a token");
    let presented = PresentedToken::parse(&token).expect("a token of ours reads");
    assert_eq!(presented.position, position);
    let seal = presented.seal.expect("it is sealed");
    let judge =
        |resource: &ResourceName, position, seal: &str| ring.judge(DATABASE, resource, position, Some(seal));
    assert_eq!(judge(&resource, position, &seal), SealVerdict::Valid(id.hash().tag()));
    met.note("sealed");
    assert_eq!(ring.judge(Uuid::from_u128(8), &resource, position, Some(&seal)), SealVerdict::Wrong);
    changed(&seal, rest, met, |seal| judge(&resource, position, seal));
    if let Some(made_up) = text(rest).filter(|made_up| *made_up != seal) {
        met.note("made up");
        assert_eq!(
            judge(&resource, position, made_up),
            SealVerdict::Wrong,
            "{made_up:?} was never given out"
        );
    }
    if let Ok(other) = ResourceName::parse(&format!("{name}/{}", rest.len())) {
        met.note("other resource");
        assert_eq!(judge(&other, position, &seal), SealVerdict::Wrong);
    }
    if let Some(other) = position.following_in(position.epoch) {
        met.note("other position");
        assert_eq!(judge(&resource, other, &seal), SealVerdict::Wrong);
    }
}

/// Each two bytes of the rest name a change: of a bit of the text, or of the bytes behind it.
fn changed(seal: &str, rest: &[u8], met: &mut Met, judge: impl Fn(&str) -> SealVerdict) {
    let right = URL_SAFE_NO_PAD.decode(seal).expect("base64url");
    for change in rest.chunks_exact(2).take(8) {
        let (at, bit) = (usize::from(change[0]), change[1]);
        let mut bytes = right.clone();
        let index = at % bytes.len();
        bytes[index] ^= 1 << (bit % 8);
        assert_eq!(judge(&URL_SAFE_NO_PAD.encode(&bytes)), SealVerdict::Wrong, "bit {bit} of byte {index}");
        let mut letters = seal.as_bytes().to_vec();
        let index = at % letters.len();
        letters[index] ^= 1 << (bit % 7);
        let spelt = String::from_utf8(letters).expect("it was ASCII");
        assert_eq!(
            judge(&spelt),
            SealVerdict::Wrong,
            "bit {bit} of letter {index}: one seal has one spelling"
        );
        assert_eq!(judge(&seal[..at % seal.len()]), SealVerdict::Wrong, "cut at {at}");
        met.note("changed");
    }
    for longer in ["A", "=", "==", ".", " ", "\n"] {
        assert_eq!(judge(&format!("{seal}{longer}")), SealVerdict::Wrong, "with {longer:?} behind it");
    }
}

fn keyring(bytes: &[u8], met: &mut Met) {
    let Some(text) = text(bytes) else { return };
    let ring = Keyring::parse(text);
    met.read("keyring", &ring);
    match ring {
        Err(error) => {
            let told = error.to_string();
            let is_long = |word: &&str| word.len() >= 24 && !word.contains(' ');
            let spoken = text.split([':', '\n', ',']).filter(is_long).find(|word| told.contains(word));
            assert_eq!(spoken, None, "a refusal repeats what may be a secret");
        }
        Ok(ring) => {
            let lines: Vec<String> = ring.keys().map(|key| key.reveal_line().to_string()).collect();
            let again = Keyring::parse(&lines.join("\n")).expect("what is written reads");
            let prints = |ring: &Keyring| ring.keys().map(|key| key.fingerprint().0).collect::<Vec<_>>();
            assert_eq!(prints(&again), prints(&ring));
            assert!(!format!("{ring:?}").contains(lines[0].split(':').next_back().expect("a secret")));
        }
    }
}
