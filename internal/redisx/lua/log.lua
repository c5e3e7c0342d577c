-- The state of a SlidingLog: a sorted set with the instant of each request, beside the hash of the pair. Mirrors internal/algorithm.
--
-- A member is a request. Its score is the instant, and its name is the instant and a number that counts on within it, because the
-- requests of a batch share an instant. The words in the pair: kind, and the instant until which the set is certain to be kept.
local log = {size = 2}
local maxMembers = 10000
local many = 500 -- arguments of one command

local function text(n) return format('%d', n) end

-- eachPart calls a command with the names of the numbers from first to last of an instant: for ZADD after its score.
local function eachPart(l, command, at, first, last)
  local score, sum = text(at), 0
  for from = first, last, many do
    local args = {}
    for i = from, min(last, from + many - 1) do
      if command == 'ZADD' then
        args[#args + 1] = score
      end
      args[#args + 1] = score .. ':' .. text(i)
    end
    sum = sum + call(command, l.key, unpack(args))
  end
  return sum
end

-- add adds members of now.
local function add(l, now, n)
  local first = l.newest == now and call('ZCOUNT', l.key, text(now), text(now)) or 0
  eachPart(l, 'ZADD', now, first, first + n - 1)
  l.newest, l.used = now, l.used + n
end

-- keep has the set expire once nothing in it counts, at the earliest.
local function keep(l, now, fresh)
  local ends = now + l.micros
  if fresh or ends > l.kept then
    l.kept = ends + slack * 1000
    call('PEXPIRE', l.key, text(ceilDiv(l.micros, 1000) + slack))
    return ends
  end
  return 0
end

-- untilUsed returns how long after now an opened log takes to count no more than n.
function log.untilUsed(l, now, n)
  if l.used <= n then
    return 0
  elseif n == 0 then
    return l.newest + l.micros - now
  end
  local place = text(-n - 1)
  return call('ZRANGE', l.key, place, place, 'WITHSCORES')[2] + l.micros - now
end

-- find sets what is known of the set of a log without counting. It reports false if a member or the type makes no sense.
local function find(l, now)
  local last = tryCall('ZRANGE', l.key, '-1', '-1', 'WITHSCORES')
  if last.err and not string.find(last.err, 'WRONGTYPE', 1, true) then
    error(last.err, 0)
  end
  local newest = tonumber(last[2])
  l.newest, l.used = newest or 0, 0
  return not last.err and not (newest and (newest > now + l.micros or string.find(last[1], text(newest) .. ':', 1, true) ~= 1))
end

-- open finds what the log counts at now, and returns it. Members of after now, of before the clock went back, count as charged now. A
-- set that makes no sense goes.
function log.open(l, words, place, now)
  local kind, kept = unpackWords(twoWords, words, place)
  l.kept, l.key, l.past = kept, l.pair.key .. l.keyEnd, text(now - l.micros)
  local isGood = kind == l.kind and find(l, now)
  if isGood and l.newest > now and l.state then
    local after = '(' .. text(now)
    local n = call('ZCOUNT', l.key, after, '+inf')
    call('ZREMRANGEBYSCORE', l.key, after, '+inf')
    l.newest = now
    add(l, now, n)
    keep(l, now, true) -- the set may have been empty in between
    rewrite(l)
  elseif l.kept > now + l.micros + slack * 1000 then -- the clock went back, or the word makes no sense
    l.kept = 0
  end
  if isGood and l.newest > now - l.micros then
    l.used = call('ZCOUNT', l.key, '(' .. l.past, '+inf')
  end
  if isGood and l.used <= maxMembers and l.newest <= now then
    return l.used
  elseif l.state then
    call('DEL', l.key)
  end
end

-- charge adds cost, even if it does not fit, up to maxMembers. It returns 0 if the pair does not change.
function log.charge(l, now, cost)
  local fresh = l.used == 0
  if l.newest > 0 then
    call('ZREMRANGEBYSCORE', l.key, '-inf', l.past)
  end
  add(l, now, min(cost, maxMembers - l.used))
  return keep(l, now, fresh)
end

-- refund removes the members of a charge of cost at an earlier instant: those with the highest numbers.
function log.refund(l, now, at, _, cost)
  local n = call('ZCOUNT', l.key, text(at), text(at))
  local back = min(n, cost)
  if back > 0 and eachPart(l, 'ZREM', at, n - back, n - 1) < back then -- some of the members are of others
    call('DEL', l.key)
    repair(l, now, l.state)
  end
end

function log.ends(text)
  return max(0, unpackWords(oneWord, text, word + 1) - slack * 1000)
end

function log.compile(l)
  l.mostGranted, l.keyEnd = max(0, maxMembers - l.rate), ':' .. text(l.micros)
  function l.words(...) return l.kind, l.kept, ... end
end

algorithms[12] = log
