-- The state of a SlidingLog: a sorted set with the instant of each request, beside the hash of the pair. Mirrors internal/algorithm.
--
-- A member is a request. Its score is the instant, and its name is the instant and a number that counts on within it, because the
-- requests of a batch share an instant. The words in the pair: kind, and the instant until which the set is certain to be kept.
local log = {size = 2}
local maxMembers = 10000
local many = 500 -- arguments of one command

local function text(n) return format('%d', n) end

-- eachPart calls a command with the names of the numbers from first to last of an instant: for ZADD after its score.
local function eachPart(key, command, at, first, last)
  local score, sum = text(at), 0
  for from = first, last, many do
    local args = {}
    for i = from, min(last, from + many - 1) do
      args[#args + 1] = command == 'ZADD' and score or nil
      args[#args + 1] = score .. ':' .. text(i)
    end
    sum = sum + call(command, key, unpack(args))
  end
  return sum
end

-- refund removes the members of a charge of cost at an earlier instant: those with the highest numbers.
function log.refund(l, now, at, _, cost)
  local key = l.pair.key .. l.keyEnd
  local n = call('ZCOUNT', key, text(at), text(at))
  local back = min(n, cost)
  if eachPart(key, 'ZREM', at, n - back, n - 1) < back then -- some of the members are of others
    call('DEL', key)
    repair(l, now, l.state)
  end
end

function log.ends(text)
  return max(0, unpackWords(oneWord, text, word + 1) - slack * 1000)
end

function log.compile(l)
  local kind, micros = l.kind, l.micros
  local key, newest, used, kept = '', 0, 0, 0
  l.mostGranted, l.keyEnd = max(0, maxMembers - l.rate), ':' .. text(micros)

  function l.words(...) return kind, kept, ... end
  function l.used() return used end

  function l.untilUsed(now, n)
    if used <= n then
      return 0
    elseif n == 0 then
      return newest + micros - now
    end
    return call('ZRANGE', key, -n - 1, -n - 1, 'WITHSCORES')[2] + micros - now
  end

  -- add adds members of now.
  local function add(now, n)
    local first = newest == now and call('ZCOUNT', key, text(now), text(now)) or 0
    eachPart(key, 'ZADD', now, first, first + n - 1)
    newest, used = now, used + n
  end

  -- keep lets the set expire once nothing in it counts, at the earliest. It returns when that is, or 0 if the pair does not change.
  local function keep(now, isNew)
    local ends = now + micros
    if isNew or ends > kept then
      kept = ends + slack * 1000
      call('PEXPIRE', key, text(ceilDiv(micros, 1000) + slack))
      return ends
    end
    return 0
  end

  -- find finds the newest member without counting. It reports false if the member or the type makes no sense.
  local function find(now)
    local last = tryCall('ZRANGE', key, '-1', '-1', 'WITHSCORES')
    if last.err and not string.find(last.err, 'WRONGTYPE', 1, true) then
      error(last.err, 0)
    end
    newest = tonumber(last[2]) or 0
    return not last[2] and not last.err or newest <= now + micros and tonumber((string.match(last[1] or '', '^(%d+):'))) == newest
  end

  -- open finds what the log counts at now, and returns it. Members of after now, of before the clock went back, count as charged now, and
  -- what had ended when the newest of them was charged stays uncounted. A set goes if it makes no sense, or if a reset missed it during a migration.
  function l.open(words, place, now)
    local itsKind, itsKept = unpackWords(twoWords, words, place)
    key, used, kept = l.pair.key .. l.keyEnd, 0, itsKept
    local isGood = itsKind == kind and find(now)
    if isGood and l.state and l.state.isNew and newest < l.pair.resetAt then
      call('DEL', key)
      newest = 0
    end
    if isGood and newest > now and l.state then
      local after = format('(%d', now)
      local n = call('ZCOUNT', key, after, '+inf')
      call('ZREMRANGEBYSCORE', key, after, '+inf')
      call('ZREMRANGEBYSCORE', key, '-inf', text(newest - micros))
      newest = now
      add(now, n)
      keep(now, true) -- the set may have been empty in between
      rewrite(l)
    elseif kept > now + micros + slack * 1000 then -- the clock went back, or the word makes no sense
      kept = 0
    end
    if isGood and newest > now - micros then
      used = call('ZCOUNT', key, format('(%d', now - micros), '+inf')
    end
    if isGood and used <= maxMembers and newest <= now then
      return used
    elseif l.state then
      call('DEL', key)
    end
  end

  -- charge adds cost, even if it does not fit, up to maxMembers. It removes what no longer counts, sixteen times in a period at most, and
  -- last, because a set that becomes empty loses its expiry.
  function l.charge(now, cost)
    local before = newest
    add(now, min(cost, maxMembers - used))
    if before > 0 and before < now - now % (micros / 16) then
      call('ZREMRANGEBYSCORE', key, '-inf', text(now - micros))
    end
    return keep(now, before == 0)
  end
end

algorithms[12] = log
