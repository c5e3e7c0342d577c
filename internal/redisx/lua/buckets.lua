-- Requests of a plain plan, several at once and without tables for each, which costs the server a fifth of what the
-- machinery for others takes. What is done is what tokenbucket.lua and decide.lua do if a tick is 1 µs.
local levels, busy = {}, {} -- of the request under way, by meter
local denied = false -- one of them does not admit what is asked

-- byKey returns the meters of each key of a plain plan, with what this file needs besides: in words, the string that is
-- written for the key.
local function byKey(plan)
  local keys = {}
  for i, l in ipairs(plan) do
    local meters = keys[l.place]
    if not meters then
      meters = {first = i, format = '<I8', length = word, words = {0}, expires = 0}
      keys[l.place] = meters
    end
    table.insert(meters, l)
    meters.format, meters.length = meters.format .. 'I8I8I8I8I8', meters.length + 5 * word
    meters.words[5 * #meters - 3] = l.kind
    l.charge = l.cost * l.micros
    l.target = l.capacity * l.micros - l.charge
  end
  return keys
end

-- open sets levels, busy and denied by what a string holds, and reports whether those are the buckets that are asked for,
-- and none is from later than now.
local function open(meters, value, now, last)
  if #value ~= meters.length then
    return false
  end
  local n, at = meters.first, 1 + word
  local expires = unpackWords('<I8', value)
  for i = 1, #meters do
    local l = meters[i]
    local kind, ends, level, since, started = unpackWords('<I8I8I8I8I8', value, at)
    if kind ~= l.kind or ends > last or level > maxLevel or since > now or started > since then
      return false
    end
    level = level - (now - since) * l.rate
    if level < 0 then
      level = 0
    end
    levels[n], busy[n] = level, started
    denied = denied or level > l.target
    n, at = n + 1, at + 5 * word
  end
  meters.expires = expires
  return expires <= last
end

-- openNew does so for a key without a string, and reports whether it is of no other type either.
local function openNew(meters, key)
  meters.expires = 0
  for n = meters.first, meters.first + #meters - 1 do
    levels[n], busy[n] = 0, 0
  end
  return call('EXISTS', key) == 0
end

-- charge charges the buckets of a key that is open, and writes them, also to latest. It replies their levels, those of the
-- request after the first so many numbers.
local function charge(meters, key, now, latest, before)
  local words, w, last = meters.words, 3, 0
  for i = 1, #meters do
    local l, n = meters[i], meters.first + i - 1
    local level, started = levels[n], busy[n]
    if level < l.micros then
      started = now
    elseif started < now - maxBusy then
      started = now - maxBusy
    end
    level = level + l.charge
    reply[before + n] = level
    local ends = now + (level + -level % l.rate) / l.rate
    ends = (ends + -ends % 1000) / 1000
    if ends > last then
      last = ends
    end
    words[w], words[w + 1], words[w + 2], words[w + 3] = ends, level, now, started
    w = w + 5
  end
  words[1] = last <= meters.expires and meters.expires or last + slack
  local value = packWords(meters.format, unpack(words))
  if words[1] == meters.expires then
    call('SETRANGE', key, '0', value)
  else
    store(key, value, words[1], now)
  end
  if latest then
    latest[key] = value
  end
end

-- takePlain decides requests whose keys begin at KEYS[first]. Of each limit it replies the level or, if the request is
-- denied, -3 less the level. A request that it cannot decide it leaves to others, and so the later ones of its keys.
local function takePlain(plan, first, count, repeats, now, others)
  local latest = repeats and {} -- strings written since they were read, by key
  local keys, step, last = byKey(plan), plan.keys, lastInstant(now)
  local values = call('MGET', unpack(KEYS, first, first + count * step - 1))
  local beyond = filled
  for base = first, first + (count - 1) * step, step do
    local known = true
    denied = false
    for k = 1, step do
      local key = KEYS[base + k - 1]
      local value = latest and latest[key] or values[base - first + k]
      if value then
        known = known and open(keys[k], value, now, last)
      else
        known = known and openNew(keys[k], key)
      end
    end
    if not known then
      for k = base, base + step - 1 do
        if latest then
          latest[KEYS[k]] = ''
        end
      end
      filled = beyond
      others(plan, base, now)
      beyond = filled
    elseif denied then
      for i = 1, #plan do
        beyond = beyond + 1
        reply[beyond] = -3 - levels[i]
      end
    else
      for k = 1, step do
        charge(keys[k], KEYS[base + k - 1], now, latest, beyond)
      end
      beyond = beyond + #plan
    end
  end
  filled = beyond
end
