-- The pair of a rule and a key, as it is stored.
--
-- A pair is a hash. Its field s has all states but the entries of sliding limits, as words. The first word is 16 times the
-- milliseconds since 1970 until which the key is certain to be kept, plus the number of this layout. Records follow. The first word
-- of a record is its kind, by which it is found:
--
--   period in µs · 16        token bucket: see tokenbucket.lua
--   period in µs · 16 + 1    the lows of the token bucket before it: see lows.lua
--   period in µs · 16 + 4    fixed window: see fixedwindow.lua
--   period in µs · 16 + 8    sliding window: see sliding.lua, which has further fields
--   period in µs · 16 + 12   sliding log, likewise
--   calendar · 16 + 4        calendar window, see calendarwindow.lua: the number of a calendar is greater than any period
--   + 5, 9 or 13             what the window or log before it was granted: see grant.lua
--   0                        what is held: see hold.lua
--   4                        a ban: until when nothing fits
--   8                        the last reset: when that was
--
-- The kind of a limit's record is greater by heldMark if a held claim has named the limit since the pair last held nothing. What a hold
-- that ends is charged, such a record counts even if it was empty.
--
-- A change of what is stored changes layout, and the version in key.go.
local layout = 4 -- below 16
local banKind, resetKind = 4, 8
local slack = 1000 -- milliseconds that a key is kept for longer, so that not every request has to prolong that
local maxKept = 1000 * maxExact -- that a first word can say
local algorithms = {[0] = tokenBucket, [4] = fixedWindow, [8] = sliding, [12] = sliding} -- by kind % 16
for mod = 0, 12, 4 do
  algorithms[mod + heldMark] = algorithms[mod]
end

-- algorithmOf returns the algorithm of a kind, or nil.
local function algorithmOf(kind)
  if kind >= firstCalendar and kind % 16 <= 6 and kind % 2 == 0 then
    return calendarWindow
  end
  return algorithms[kind % 16]
end

-- sizeOf returns the number of words of the record at o, or nil if there is no such record.
local function sizeOf(w, o)
  local kind = w[o]
  local algorithm = algorithmOf(kind)
  if kind >= 16 and algorithm then
    return algorithm.size
  elseif kind >= 16 and (kind % 16 == 5 or kind % 16 == 9 or kind % 16 == 13) then
    return grantSize
  elseif kind >= 16 then
    return kind % 16 == 1 and w[o + 1] <= maxLows and 2 + 2 * w[o + 1]
  elseif kind == holdKind then
    return w[o + 1] > 0 and w[o + 1] < maxWords and holdSize + cellSize * w[o + 1]
  end
  return (kind == banKind or kind == resetKind) and 2
end

-- findRecords finds the records of the pair at place. It returns how many limits of the plan have one, or nil if they make no sense.
local function findRecords(plan, place, now)
  local w, size, kinds, o, found = words[place], sizes[place], plan.kinds[place], 2, 0
  while o < size do
    local kind = w[o]
    local l = kinds[-kind]
    if l then
      l.w, l.o, found = w, o, found + 1
      if l.period and tokenBucket.knowsMore(w, o, l, now) then
        anyRare = true
      end
      o = o + l.size
      if l.period and w[o] == l.lows then
        o = o + (sizeOf(w, o) or size)
      end
    else
      anyRare = true
      if kind == holdKind then
        holdAt[place] = o
      elseif kind == banKind then
        banAt[place] = o
      elseif kind == resetKind then
        resetAt[place] = o
      elseif kind % 2 == 0 then -- neither lows nor a grant
        others[place] = others[place] + 1
      end
      local length = sizeOf(w, o)
      if not length then
        return nil
      end
      o = o + length
    end
  end
  return o == size + 1 and found
end

-- eachLimit calls f with the place of each record of a limit, and the limit: the first of the plan that has the record, or one that says
-- what the record itself knows, which is one of the others. If f returns true the record is removed.
local function eachLimit(plan, place, f)
  local w, o = words[place], 2
  while o <= sizes[place] do
    local kind, length = kindOf(w, o), sizeOf(w, o)
    local algorithm = kind >= 16 and algorithmOf(kind)
    if algorithm then
      local l = plan.kinds[place][-kind]
      local isOther = not l
      if isOther or l.rate == 0 then
        l = algorithm.limitOf(w, o)
        l.algorithm, l.kind, l.name = algorithm, kind, format('%d', kind)
      end
      if f(w, o, l, isOther) then
        resize(w, o, -length)
        others[place], length = others[place] - 1, 0
      end
    end
    o = o + length
  end
end

-- dropEnded removes what limits that the plan does not have left, and has ended. If there is little room, it also removes the one that ends
-- first.
local function dropEnded(plan, place, now)
  local first, least = nil, 2 * maxExact
  local function drop(w, o, l, isOther)
    local ends = isOther and l.algorithm.ends(w, o, l) or least
    if ends < least then
      first, least = w[o], ends
    end
    local drops = isOther and (ends <= now or w[o] == first and sizes[place] > maxWords / 2)
    if drops and l.algorithm == sliding then
      forgetTexts(w, o, l)
    elseif drops and l.algorithm == tokenBucket then
      setLows(w, o, noLows)
    end
    if drops and l.algorithm ~= tokenBucket then
      removeGrant(w, o, l.algorithm.size)
    end
    return drops
  end
  eachLimit(plan, place, drop)
end

-- forgetHeld removes all marks of a pair that holds nothing.
local function forgetHeld(place)
  local w, o = words[place], 2
  while o <= sizes[place] do
    local length = sizeOf(w, o)
    w[o] = kindOf(w, o)
    o = o + length
  end
end

-- endHolds charges what was held in cells that have ended to all limits of the pair at place, each at the end of its cell. A reset
-- forgets it.
local function endHolds(plan, place, now)
  local w, ended, n = words[place], {}, 0
  while holdAt[place] > 0 and w[holdAt[place] + holdSize] + holdLife <= now do
    local cell = holdAt[place] + holdSize
    ended[n + 1], ended[n + 2], n = w[cell] + holdLife, w[cell + 1], n + 2
    removeCell(place, cell)
  end
  if n > 0 and plan.op ~= 'r' then
    eachLimit(plan, place, function(_, o, l, isOther)
      l.algorithm.finish(w, o, l, isHeld(w, o), now, ended)
      if isOther then
        lasts[place] = max(lasts[place], l.algorithm.ends(w, o, l))
      end
    end)
  end
  if holdAt[place] == 0 then
    forgetHeld(place)
  end
end

-- markHeld has the record of limit l count what a hold that ends is charged, with the rate or width of l.
local function markHeld(l, now)
  if l.kind > 0 then
    local w, o = l.w, l.o
    l.algorithm.keep(w, o, l, now)
    w[o] = l.kind + heldMark
    local longest = holdAt[l.place] + 2
    w[longest] = max(w[longest], l.ban)
  end
end

-- parse sets the words of the pair at place to the words of a value. It returns how many limits of the plan have a record, or nil if the value
-- makes no sense.
local function parse(plan, place, value, now)
  local form = formats[#value]
  if form then
    local w = {unpackWords(form, value)}
    words[place], sizes[place] = w, #value / word
    return w[1] % 16 == layout and w[1] <= maxKept and findRecords(plan, place, now)
  end
end

-- addLimit adds an empty record for limit l of the plan to its pair.
local function addLimit(plan, place, l, now)
  if anyRare and others[place] > 0 and holdAt[place] == 0 then
    dropEnded(plan, place, now)
  end
  local w, o = words[place], sizes[place] + 1
  l.w, l.o, sizes[place] = w, o, o + l.size - 1
  l.algorithm.empty(w, o, l, stored[place])
  anyRare = anyRare or l.rate == 0
  return w, o
end

-- addLimits adds records for the limits of the plan that the pair at place has not.
local function addLimits(plan, place, now)
  local w = words[place]
  for _, l in ipairs(plan.pairs[place]) do
    if l.same then
      l.w, l.o = w, l.same.o
    elseif l.kind == 0 then
      l.w, l.o = w, 0
    elseif l.w ~= w then
      addLimit(plan, place, l, now)
    end
  end
end

-- resetBroken makes all limits of a pair just used up, of which nothing that is stored makes sense: that neither admits anew nor denies for
-- ever.
local function resetBroken(plan, place, now)
  holdAt[place], banAt[place], resetAt[place], others[place] = 0, 0, 0, 0
  words[place], sizes[place] = {layout}, 1
  addLimits(plan, place, now)
  for _, l in ipairs(plan.pairs[place]) do
    if l.kind > 0 and not l.same then
      dirty[place] = repair(l.w, l.o, l, now)
    end
  end
end

-- readPair reads the pair at key. Limits of the plan that it does not have get an empty record.
local function readPair(plan, place, key, now)
  local value, found = tryCall('HGET', key, 's'), 0
  keys[place], dirty[place], stored[place] = key, false, value
  if not value then
    words[place], sizes[place] = {layout, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 1 -- with room for a record
  else
    found = parse(plan, place, value, now)
    if not found then
      if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then
        error(value.err, 0)
      elseif type(value) == 'table' then
        call('DEL', key)
      end
      resetBroken(plan, place, now)
    end
  end
  if anyRare then
    if banAt[place] > 0 then
      bannedUntil[place] = words[place][banAt[place] + 1]
    end
    if holdAt[place] > 0 then
      rewindHolds(place, now)
      endHolds(plan, place, now)
      sumHolds(place)
    end
  end
  if found ~= plan.pairs[place].count then
    addLimits(plan, place, now)
  end
end

-- endOf returns when all that the pair at place has, and its plan says, has ended. What is held will be charged at its end.
local function endOf(plan, place)
  local last = 0
  if anyRare then
    last = lasts[place]
    if holdAt[place] > 0 then
      local w, hold, cost = words[place], holdAt[place], heldCost[place]
      local ended = w[lastCell(w, hold)] + holdLife
      last = max(last, ended)
      eachLimit(plan, place, function(_, o, l) last = max(last, l.algorithm.ends(w, o, l, ended, cost) + w[hold + 2]) end)
      return last
    end
  end
  local limits = plan.pairs[place]
  for n = 1, #limits do
    local l = limits[n]
    local ends = l.ends(l.w, l.o, l)
    if ends > last then
      last = ends
    end
  end
  return last
end

-- saveTexts returns the command that stores the texts of sliding limits that have changed, without the words, or nil if none has.
local function saveTexts(place)
  local w, o, command = words[place], 2, nil
  while o <= sizes[place] do
    if w[o] >= 16 and algorithms[w[o] % 16] == sliding then
      command = sliding.save(w, o, keys[place], command)
    end
    o = o + sizeOf(w, o)
  end
  return command
end

-- savePair stores what has changed of the pair at place.
local function savePair(plan, place, now)
  local w, key, size = words[place], keys[place], sizes[place]
  if anyRare and holdAt[place] == 0 then
    forgetHeld(place)
  end
  if size == 1 then -- nothing is left
    if stored[place] then
      call('DEL', key)
    end
    return
  end
  local last, prolong = endOf(plan, place), false
  if last * 0.016 > w[1] or w[1] * 62.5 < now then
    prolong = math.ceil(min(max(last, now), now + maxExact) / 1000) + slack
    w[1] = prolong * 16 + layout
  end
  local command = hasTexts and saveTexts(place)
  local value = pack(formats[word * size], unpack(w, 1, size))
  if command then
    command[4] = value
    call(unpack(command))
  else
    call('HSET', key, 's', value)
  end
  if prolong then
    call('PEXPIRE', key, format('%d', prolong - floorDiv(now, 1000)))
  end
end
