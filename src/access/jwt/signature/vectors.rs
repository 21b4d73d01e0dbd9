//! Signatures that other software made (OpenSSL, by way of Python), of the message `e30.e30`.

/// The RSA key of 2048 bits: its modulus.
pub(super) const MODULUS: &str = "n7dwGY_aLDTVeGGCvehYbZgjh2URzBnl3e9jwXD-6vFL3LI7gvvAWyboQYNou-kFUvIP8FiutcmWR_m6uSnmO1b6pG3fuvevVOE-nKKA480Q_DX-zSpQk_1tEXeSr4stBHaGzmKLlL0gqA5-1wMqT-AuGievsdb3J0qNYqXOUAqTURf6QgwuvRjDVwkq-eOetL-Ieh8ExNQMP9wVKn9E_4dCmlzKi7D7utp4W4IlE6v0nzu80hEa1jIn_9KsEMZWx8-qcKYO_nuHUbCC3Uvqhbn1twMco_Qzv0D6Gzit2z6csGwc_v-kslhwzWb2sradGnHSknwvSxAYubpMiR5p2w";

/// What it signed.
pub(super) const BY_RSA: [(&str, &str); 6] = [
    (
        "RS256",
        "ghK725S8pQxbWzwRJc3eosXDEcf9L-j7nO_buBVMFs4T1HHoB1RW_F3BE6EHtzWid4q98g3YGpmGLQ8lAYVEp1YGkNrU5IWY2wqmgC30SwjxBcja98in2KJnKuIkNP6uZ9vVk2kNCDi6nmhHVN7NDFyZtoy8FKaJyhlkF8uqhyFASXGwHHNgyn4A6r08w9fFjIZqOoNkOryvkqXe9mVGR3opqgZxjUVJlN2cYaqF1hE5C6ED5P84v1JIDXvzdCnRNT0qRBxDtDgfPeHrn0RVBzd9X1vFZP-tKzucSa7xhh-TgdJl1YfkTBaLck4aSiOA3xOUthsOegI5ToGSK6SEMQ",
    ),
    (
        "PS256",
        "QWf0vP9o-E_o1yY2Bl8VHZCvGf7CFw0L8RXh1vqgLZa5uUca2R1Tam9-w8D7Ajl6ygzdi_dxrQXHiqjB3C5afX6nJih5zuUphVLtWZ5_AdVpdye2h0dLZoLnLIT0_4Z7qMP05hvwozo3zNrljIJCk2e3E2wqNx84AgonuKcA8hDIWHLA8Cf0uNxleQoWaAYXwtirH0BC7X1LxDQ1_4fiPEwYJXA9KZoQhObsmk7Ti5rSXfaTKreYCDvw0CmQvT4qLqCqzDYFE7x3i9P-_dZUCeCR6FVkXpV2fM5YaCMHf61NM7FOxIWF0qyIVOHAFjLvrCdZykAAeFJxYZ0-nedd-g",
    ),
    (
        "RS384",
        "WMR6z9kvkur1lVetMN2Wb7MfypyMqOEuAnUL5tUoDJmp_ON4tYxWC5B_s-2dlI-aMPLNsPlpyho7MXfNBZfOgsXaVnUaTgR3E2i_4io6KND_5_F-6XQAfnD7Vdi1aJRy5H-YIbcrDzvSynttb8ebXLG_BifD17MS-r1x9NAeEDG-pF9eRd6fwowiM19B1Q56RbSKWjsNdN-92l-j0iyHyUb0fiTj9mYdaiC6GuTeny5qmDeoPR1owtli_2HEJX2FPCbE_wAv2t8zvUo3WdfEEOCXLcDv8n9g56LoAKyuAtrNddUf278ffC2LttJ3XWsUO0fVt67CIfDr8GshZZUtOA",
    ),
    (
        "PS384",
        "WBoUc3icrD9Vl_s3fQiOmfwk2SHcxo205bJSozs_NRQJxusZxEnyfT4RZCSwnzr7snpR7cJNdnkNrBb9Xmmss_CdxJ4YnKVIPAzc6YUKa4bWXhUobSQzlGpvvbkHdgt-lMrkxrZLTesDQXHIQtloSUPRlnjx5BJFMpmAaS1KmsvCo8IJmvh42cKxtC0XZcuW1gxzgG3ORhHvtvVz9cBKxp2Ew6W81FhyUtEO2tiDC6RzadcLgd5Plcz5IlHWD_RxYDrARflqDSBBgh7u3k-Q_3Rv3y1hazA21AG4vsPcz6DhzlCDuifWxAzC1-AsDnAt9ar0iSDu62jWsRXkfvtBXg",
    ),
    (
        "RS512",
        "VnKiD-wm7tBI9pdvaXUJwgr4FndEX3Pi37RsG0U_-FV-GSQdy3tJ4XrYK06ZK1akSNXnMJx9TNxSqCT9dWwdDoDnWuicRUva6ru1IBzwZm4sbERkPXxO2qcWKME_Mr28QBqUmfIkpwXy35pgWbXY2wNQeeknC5uSOkGa9auGja8lQX2SqNz49Jj1297lxSSJD0k9KZRineDrsIYgH4Q49F5Lvl5fbFMD72ZAPHj8ugvbOGwh9Hbx7QQUmErMgxw5K2viAunX3vsWVLlTlDEr1IqozjVDscypYt3yKPpajIvv-agG9IZ3ZqkSTz6lz3dgJ1uYyl_aOddDIsdw2_cmmg",
    ),
    (
        "PS512",
        "LU32HmxKKrA8-4JhGy8U8Hc5WWMzhWHxloz8q_xl6Nu-61hdDbWzuCjjCUOzROAZQfKKq7fcpLRdbsGQ7d8l7CoXpkJn14g9m63_l6KMLD7ubSVa1f0t7XS0n5uqd_l9GY2lyVvVbRRA7gC9lLQ2equl9P9VZCjWl7Av-yotEj-XLW_WtdDD-qnYcImYH9FpnZILkm_n5jLQWi9bafh62ovbhzONrnIB_b_FzUzrVRiUZhnu_I9Skjr4oWGgBxeToVR13s5wDtR6rYD5zppzR3kSS_fYBtQnIRK6LP0-_-iv5wkTDUkmYUkEo1O9QiPzoe3EAiFjb6IplD-EAennVg",
    ),
];

/// An RSA key of 1024 bits, which is too short to be believed, and what it signed as RS256.
pub(super) const SHORT: (&str, &str) = (
    "va8ThMwP8Hh7SCJkOxgipx2PBtNhzoSt5aTkIRMcmawp4mniOsKvBh_hzS_DDTpIVogYHnxmZgQMv2U3e9mzNpOEohN1vcnnmpRTfNtnZZNMQihz_zrI3Eqenvq-nrsitFZF_bcMxtGawE05aYAiFkjmmOdKVwykG-jH-pC2r4s",
    "RWRAAkCpvsfpNdBY-3CJ02n-JnVe_f5pcIuBpUdu1u09BsjqiJyCbxR8gsAw2VnD2PZY9VjtqgbNRXsqCIwPWFFCZoavrafdOjnMgAmXpt99vpz1J-ydkJu0OnLleKSztTJho0WlzCTH9x_mCG2qbMnBiKo3Ymv8m-mcKWu4_2k",
);

/// A key on the curve P-384, and what it signed as ES384.
pub(super) const ON_P384: (&str, &str, &str) = (
    "UvHZ4YbYltiyiBIKiCsOsfSwl23ov23xqxnkozvY1BfkASapivkrF6HP29I1dUCB",
    "mg2asS5JBXBFwMEz4lyDm8fMGI-iCVy6TfOVpZh8ZwpHLoge7chcB5bsjiDXUw0m",
    "t_z-y5Q2vdxRcCXb1Ih4P3mi5h6ztMMtKS_Q8wwEar01lKc1yva0cu77VtLxMRtyceFenkkoWMyTU6cdYHMkeSEU8znYEfFM6DtudUz5d1i9dYJiS8zz0sUQSOlpK6C7",
);
