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
--   0                        what is held: see hold.lua
--   4                        a ban: until when nothing fits
--   8                        the last reset: when that was
--
-- A change of what is stored changes layout, and the version in key.go.
local layout = 3 -- below 16
local banKind, resetKind = 4, 8
local slack = 1000 -- milliseconds that a key is kept for longer, so that not every request has to prolong that
local maxWords = 2000
local algorithms = {[0] = tokenBucket, [4] = fixedWindow, [8] = sliding, [12] = sliding} -- by kind % 16

-- sizeOf returns the number of words of the record at o, or nil if there is no such record.
local function sizeOf(w, o)
  local kind = w[o]
  local algorithm = algorithms[kind % 16]
  if kind >= 16 and algorithm then
    return algorithm.size
  elseif kind >= 16 then
    return kind % 16 == 1 and w[o + 1] <= maxLows and 2 + 2 * w[o + 1]
  elseif kind == holdKind then
    return w[o + 1] > 0 and w[o + 1] < maxWords and 2 + 3 * w[o + 1]
  end
  return (kind == banKind or kind == resetKind) and 2
end

-- findRecords finds the records of the pair at place, and reports whether they make sense.
local function findRecords(plan, place)
  local w, size, kinds, o = words[place], sizes[place], plan.kinds[place], 2
  while o < size do
    local kind = w[o]
    local i = kinds[-kind]
    if i then
      homes[i] = o
      o = o + plan[i].algorithm.size
    else
      anyRare = true
      if kind == holdKind then
        holdAt[place] = o
      elseif kind == banKind then
        banAt[place] = o
      elseif kind == resetKind then
        resetAt[place] = o
      elseif kind % 16 ~= 1 then
        others[place] = others[place] + 1
      end
      local length = sizeOf(w, o)
      if not length then
        return false
      end
      o = o + length
    end
  end
  return o == size + 1
end

-- eachOther calls f with the place and the limit of each record of a limit that the plan does not have. If f returns true the record
-- is removed.
local function eachOther(plan, place, f)
  local w, o = words[place], 2
  while o <= sizes[place] do
    local kind, length = w[o], sizeOf(w, o)
    local algorithm = algorithms[kind % 16]
    if kind >= 16 and algorithm and not plan.kinds[place][-kind] then
      local l = algorithm.limitOf(w, o)
      l.algorithm = algorithm
      if f(w, o, l) then
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
  local function drop(w, o, l)
    local ends = l.algorithm.ends(w, o, l)
    if ends < least then
      first, least = w[o], ends
    end
    local drops = ends <= now or w[o] == first and sizes[place] > maxWords / 2
    if drops and l.algorithm == sliding then
      forgetTexts(w, o, l)
    elseif drops then
      setLows(w, o, noLows)
    end
    return drops
  end
  eachOther(plan, place, drop)
end

-- endHolds charges what ended before now to all limits of the pair at place, each cell at the instant of its end.
local function endHolds(plan, place, now)
  local w = words[place]
  while holdAt[place] > 0 and w[holdAt[place] + 2] + holdLife <= now do
    local cell = holdAt[place] + 2
    local ended, cost = w[cell] + holdLife, w[cell + 1]
    removeCell(place, cell)
    for _, i in pairs(plan.kinds[place]) do
      local l = plan[i]
      if homes[i] > 0 and cost > 0 and l.rate > 0 then
        l.load(w, homes[i], l, ended)
        l.charge(w, homes[i], l, ended, cost)
      end
    end
    if others[place] > 0 and cost > 0 then
      eachOther(plan, place, function(_, o, l)
        l.algorithm.load(w, o, l, ended)
        l.algorithm.charge(w, o, l, ended, cost)
        lasts[place] = max(lasts[place], l.algorithm.ends(w, o, l))
      end)
    end
  end
end

-- parse sets the words of the pair at place to those of a value, and reports whether they make sense.
local function parse(plan, place, value, now)
  local size = #value / word
  if size < 1 or size > maxWords or size % 1 > 0 then
    return false
  end
  local w = {unpackWords(formats[size], value)}
  words[place], sizes[place] = w, size
  return w[1] % 16 == layout and w[1] <= (now + 2 * maxExact) / 1000 * 16 and findRecords(plan, place)
end

-- addLimit adds an empty record for limit i of the plan to its pair.
local function addLimit(plan, place, i, l, now)
  if others[place] > 0 and holdAt[place] == 0 then
    dropEnded(plan, place, now)
  end
  local w, o = words[place], sizes[place] + 1
  homes[i], sizes[place] = o, o + l.algorithm.size - 1
  l.algorithm.empty(w, o, l, stored[place])
  return w, o
end

-- resetBroken makes all limits of a pair just used up, of which nothing that is stored makes sense: that neither admits anew nor denies for
-- ever.
local function resetBroken(plan, place, now)
  holdAt[place], banAt[place], resetAt[place], others[place] = 0, 0, 0, 0
  words[place], sizes[place] = {layout}, 1
  for _, i in ipairs(plan.pairs[place]) do
    homes[i] = 0
  end
  for _, i in pairs(plan.kinds[place]) do
    local l = plan[i]
    local w, o = addLimit(plan, place, i, l, now)
    dirty[place] = repair(w, o, l, now)
  end
end

-- readPair reads the pair at key. Limits of the plan that it does not have get an empty record.
local function readPair(plan, place, key, now)
  local limits, value = plan.pairs[place], tryCall('HGET', key, 's')
  keys[place], dirty[place], stored[place] = key, false, value
  for n = 1, #limits do
    homes[limits[n]] = 0
  end
  if not value then
    words[place], sizes[place] = {layout}, 1
  elseif value.err then
    if not string.find(value.err, 'WRONGTYPE', 1, true) then
      error(value.err, 0)
    end
    call('DEL', key)
    resetBroken(plan, place, now)
  elseif not parse(plan, place, value, now) then
    resetBroken(plan, place, now)
  end
  if anyRare then
    if banAt[place] > 0 then
      bannedUntil[place] = words[place][banAt[place] + 1]
    end
    if holdAt[place] > 0 then
      endHolds(plan, place, now)
      rewindHolds(place, now)
      sumHolds(place)
    end
  end
  for n = 1, #limits do
    local i = limits[n]
    if homes[i] == 0 then
      local l = plan[i]
      if l.same then
        homes[i] = homes[l.same]
      elseif l.kind > 0 then
        addLimit(plan, place, i, l, now)
      end
    end
  end
end

-- endOf returns when all that the pair at place has, and its plan says, has ended. What is held will be charged at its end.
local function endOf(plan, place)
  local w, last, limits, ended, held = words[place], 0, plan.pairs[place], nil, nil
  if anyRare then
    last = lasts[place]
    if holdAt[place] > 0 then
      ended, held = w[lastCell(w, holdAt[place])] + holdLife, heldCost[place]
      last = max(last, ended)
      eachOther(plan, place, function(_, o, l) last = max(last, l.algorithm.ends(w, o, l, ended, held)) end)
    end
  end
  for n = 1, #limits do
    local i = limits[n]
    local l = plan[i]
    local ends = l.ends(w, homes[i], l, ended, held)
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
  if size == 1 then -- nothing is left
    if stored[place] then
      call('DEL', key)
    end
    return
  end
  local last, prolong = min(endOf(plan, place), now + maxExact), nil
  if last * 0.016 > w[1] or w[1] * 62.5 < now then
    prolong = math.ceil(max(last, now) / 1000) + slack
    w[1] = prolong * 16 + layout
  end
  local command = (plan.sliding or anyRare and others[place] > 0) and saveTexts(place)
  local value = pack(formats[size], unpack(w, 1, size))
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
