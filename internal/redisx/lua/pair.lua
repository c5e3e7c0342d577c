-- The pair of a rule and a key, as it is stored.
--
-- A pair is a hash. Its field s has all states but older entries of sliding limits, as words. The first word is 16 times
-- the milliseconds since 1970 until which the key is certain to be kept, plus the number of this layout. Records
-- follow. The first word of a record is its kind, by which it is found:
--
--   period in µs · 16        token bucket: see tokenbucket.lua
--   period in µs · 16 + 4    fixed window: see fixedwindow.lua
--   period in µs · 16 + 8    sliding window: see sliding.lua, which has further fields
--   period in µs · 16 + 12   sliding log, likewise
--   calendar · 16 + 4        fixed window of a calendar, whose number is greater than any period
--   0                        what is held: see hold.lua
--   1                        the lows of the token bucket before it: see lows.lua
--   2                        what the window or log before it was granted: see grant.lua
--   4                        a ban: until when nothing fits
--   8                        the last reset: when that was
--
-- heldMark is added to the kind of a limit's record when a held claim names the limit, and taken away when the pair
-- holds nothing. A hold that ends is charged to a marked record even if the record was empty. So the code of an
-- algorithm, which is added to period · 16, is even.
--
-- A change of what is stored changes layout, and the version in key.go.
local layout = 6 -- below 16
local banKind, resetKind = 4, 8
local slack = 10000 -- milliseconds that a key is kept for longer, so that few requests have to prolong that
local maxKept = 1000 * maxExact -- that a first word can say
local algorithms = {[0] = tokenBucket, [4] = fixedWindow, [8] = slidingWindow, [12] = slidingLog} -- by kind % 16
for mod = 0, 12, 4 do
  algorithms[mod + heldMark] = algorithms[mod]
end

-- sizeOf returns the number of words of the record at o, or nil if there is no such record.
local function sizeOf(w, o)
  local kind = w[o]
  if kind >= 16 then
    local algorithm = algorithms[kind % 16]
    return algorithm and algorithm.size
  elseif kind == lowsKind then
    return w[o + 1] <= maxLows and 2 + 2 * w[o + 1]
  elseif kind == grantKind then
    return grantSize
  elseif kind == holdKind then
    return w[o + 1] > 0 and w[o + 1] < maxWords and holdSize + cellSize * w[o + 1]
  end
  return (kind == banKind or kind == resetKind) and 2
end

-- limitOf makes a limit from a record alone.
local function limitOf(pair, w, o)
  local kind = kindOf(w, o)
  local algorithm = algorithms[kind % 16]
  local l = algorithm.limitOf(w, o)
  l.algorithm, l.kind, l.name, l.pair, l.ends = algorithm, kind, format('%d', kind), pair, algorithm.ends
  return l
end

-- eachOther calls f with the place of each record of a limit that the plan does not have, the limit, and true. If f
-- returns true the record is removed.
local function eachOther(pair, f)
  local w, o = pair.words, pair.others > 0 and 2 or pair.size + 1
  while o <= pair.size do
    local kind, length = w[o], sizeOf(w, o)
    if kind >= 16 and not pair.kinds[-kind] then
      if f(w, o, limitOf(pair, w, o), true) then
        resize(w, o, -length)
        pair.others, length = pair.others - 1, 0
      end
    end
    o = o + length
  end
end

-- eachLimit calls f with the place of each record of a limit, and the limit: the first of the plan that has the record,
-- or one that says what the record itself knows.
local function eachLimit(pair, f)
  for _, l in ipairs(pair) do
    if l.w == pair.words and l.kind > 0 and not l.same then
      f(l.w, l.o, l.rate == 0 and limitOf(pair, l.w, l.o) or l)
    end
  end
  eachOther(pair, f)
end

-- dropEnded removes the records of limits that the plan does not have once they have ended. If there is little room, it
-- also removes the record that ends first.
local function dropEnded(pair, now)
  local first, least = nil, math.huge
  local function drop(w, o, l)
    local ends = l.ends(w, o, l)
    if ends >= now and w[o] ~= first then -- a bucket may end within this microsecond
      return false
    end
    l.algorithm.discard(w, o, l)
    return true
  end
  eachOther(pair, drop)
  if pair.size > maxWords / 2 then
    eachOther(pair, function(w, o, l)
      local ends = l.ends(w, o, l)
      if ends < least then
        first, least = w[o], ends
      end
    end)
    eachOther(pair, drop)
  end
end

-- forgetHeld removes all marks of a pair that holds nothing.
local function forgetHeld(pair)
  local w, o = pair.words, 2
  while o <= pair.size do
    local length = sizeOf(w, o)
    if w[o] >= 16 then
      w[o] = kindOf(w, o)
    end
    o = o + length
  end
end

-- endHolds charges what was held in cells that have ended to all limits of a pair, each at the end of its cell. A reset
-- forgets it.
local function endHolds(pair, now)
  local w, ended, n = pair.words, {}, 0
  while pair.holdAt > 0 and w[pair.holdAt + holdSize] + holdLife <= now do
    local cell = pair.holdAt + holdSize
    ended[n + 1], ended[n + 2], n = w[cell] + holdLife, w[cell + 1], n + 2
    removeCell(pair, cell)
  end
  if n > 0 and current.op ~= 'r' then
    eachLimit(pair, function(_, o, l, isOther)
      l.algorithm.finish(w, o, l, isHeld(w, o), now, ended)
      if isOther then
        pair.last = max(pair.last, l.algorithm.ends(w, o, l))
      end
    end)
  end
  if pair.holdAt == 0 then
    forgetHeld(pair)
  end
end

-- markHeld has the record of limit l count what a hold that ends is charged, with the rate or width of l.
local function markHeld(l, now)
  if l.kind > 0 then
    local w, o = l.w, l.o
    l.algorithm.keep(w, o, l, now)
    w[o] = l.kind + heldMark
    local longest = l.pair.holdAt + 2
    w[longest] = max(w[longest], l.ban)
  end
end

-- addLimits adds empty records for the limits of the plan that a pair has not.
local function addLimits(pair, now)
  local w = pair.words
  for _, l in ipairs(pair) do
    if l.same or l.kind == 0 then
      l.w, l.o = w, l.same and l.same.o or 0
    elseif l.w ~= w then
      if anyRare and pair.others > 0 and pair.holdAt == 0 then
        dropEnded(pair, now)
      end
      l.w, l.o, pair.size = w, pair.size + 1, pair.size + l.size
      l.algorithm.empty(w, l.o, l, w[1] > layout)
    end
  end
end

-- useNew gives a pair that is not stored the words of a new one.
local function useNew(pair)
  local w = {unpack(pair.new)}
  pair.words, pair.size = w, #w
  for n = 1, #pair do
    local l = pair[n]
    l.w, l.o = w, l.first
  end
end

-- resetBroken replaces a pair that makes no sense: all its limits are just used up, which neither admits anew nor
-- denies for ever.
local function resetBroken(pair, now)
  pair.holdAt, pair.banAt, pair.resetAt, pair.others = 0, 0, 0, 0
  pair.words, pair.size = {16 + layout}, 1 -- unlike a pair that is not stored
  addLimits(pair, now)
  for _, l in ipairs(pair) do
    if l.kind > 0 and not l.same then
      pair.dirty = repair(l.w, l.o, l, now)
    end
  end
end

-- replaceBroken replaces a pair whose value makes no sense, or is the error of a command that could not read it.
local function replaceBroken(pair, value, now)
  if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then
    error(value.err, 0)
  elseif type(value) == 'table' then
    call('DEL', pair.key)
  end
  resetBroken(pair, now)
end

-- openRare brings what a pair holds to now, and notes until when the pair is banned.
local function openRare(pair, now)
  if pair.banAt > 0 then
    pair.bannedUntil = pair.words[pair.banAt + 1]
  end
  if pair.holdAt > 0 then
    rewindHolds(pair, now)
    endHolds(pair, now)
    sumHolds(pair)
  end
end

-- skipRecord notes a record that is not of a limit of the plan, and returns where the next one begins: behind the end
-- if the record makes no sense.
local function skipRecord(pair, w, o)
  local kind, size = w[o], sizeOf(w, o)
  anyRare = anyRare or kind ~= lowsKind -- lows alone are not rare
  if kind == holdKind then
    pair.holdAt = o
  elseif kind == banKind then
    pair.banAt = o
  elseif kind == resetKind then
    pair.resetAt = o
  elseif kind >= 16 then
    pair.others = pair.others + 1
  end
  return o + (size or maxWords)
end

-- parsePair parses the value of a pair. Limits of the plan that it does not have get an empty record.
local function parsePair(pair, value, now)
  local size = #value / word
  local form = formats[size]
  if not form then
    return replaceBroken(pair, value, now)
  end
  local w, kinds, o, found = {unpackWords(form, value)}, pair.kinds, 2, 0
  pair.words, pair.size = w, size
  if w[1] % 16 ~= layout or w[1] > maxKept then
    return replaceBroken(pair, value, now)
  end
  while o < size do
    local l = kinds[-w[o]]
    if l and l.w ~= w then -- the first record of its kind
      l.w, l.o, found = w, o, found + 1
      if l.period and (w[o + 4] ~= l.rate or w[o + 5] ~= l.code or w[o + 2] > now or w[o + 1] > maxExact) then
        anyRare, anyOdd = true, true -- another rate, other ticks, a clock that went back, or a repair
      end
      o = o + l.size
    else
      o = skipRecord(pair, w, o)
    end
  end
  if o ~= size + 1 then
    return replaceBroken(pair, value, now)
  elseif anyRare then
    openRare(pair, now)
  end
  if found ~= #pair then
    addLimits(pair, now)
  end
end

-- endOf returns the instant from which the pair no longer matters. What is held will be charged when the hold ends.
local function endOf(pair)
  local w, hold, cost, last = pair.words, pair.holdAt, pair.heldCost, pair.last
  if hold > 0 then
    local ended = w[lastCell(w, hold)] + holdLife
    last = max(last, ended)
    eachLimit(pair, function(_, o, l) last = max(last, l.ends(w, o, l, ended, cost) + w[hold + 2]) end)
    return last
  end
  for _, l in ipairs(pair) do
    last = max(last, l.ends(l.w, l.o, l))
  end
  if anyRare then
    forgetHeld(pair)
  end
  return last
end

-- saveTexts returns the command that stores the texts of sliding limits that have changed, without the words, or nil if none has.
local function saveTexts(pair)
  local w, o, command = pair.words, 2, nil
  while o <= pair.size do
    local algorithm = w[o] >= 16 and algorithms[w[o] % 16]
    if algorithm and algorithm.save then
      command = algorithm.save(w, o, pair.key, command, algorithm.recent)
    end
    o = o + sizeOf(w, o)
  end
  return command
end
