-- The distinct writes of `fencegate bench` for wrk, to hold its own load generator against one that everybody knows:
--   wrk -t2 -c64 -d5s --latency -s benches/write.lua http://127.0.0.1:PORT
-- Two threads write even and odd documents, so no write overtakes another one of the same document often enough to
-- matter: an answer of 412 shows as "Non-2xx" in the summary.
local threads = 0
local number = 0
function setup(thread)
  thread:set("thread", threads)
  threads = threads + 1
end
function init()
  math.randomseed(os.time() + thread * 7919)
  base = os.time() * 1000000
  text = string.rep("the quick brown fox jumps over the lazy dog and sleeps ", 5)
  headers = { ["Content-Type"] = "application/json", ["Fencing-Token"] = "7" }
end
function request()
  number = number + 1
  local document = math.random(0, 49999) * 2 + thread
  headers["Fencing-Sequence"] = string.format("%d", base + number)
  headers["Idempotency-Key"] = string.format("%08x-%04x-4%03x-a%03x-%06x%06x", math.random(0, 0x7fffffff),
    math.random(0, 0xffff), math.random(0, 0xfff), math.random(0, 0xfff), math.random(0, 0xffffff), number % 0x1000000)
  local body = string.format("{\"n\":\"%d-%d\",\"text\":\"%s\"}", thread, number, text)
  return wrk.format("PUT", string.format("/fenced/bench/doc-%06d", document), headers, body)
end
