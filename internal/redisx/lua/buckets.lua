-- Requests of a plain plan, which nearly all are: several at once, without tables for each. That costs the server a third
-- of what the machinery for others takes. What it does is what tokenbucket.lua and decide.lua do if a tick is 1 µs.
local maxBusy = 4294967295 -- how far back busy reaches, in microseconds

local latest = {} -- strings written since they were read, by key
local levels, busy = {}, {} -- of the request under way, by meter
local words = {} -- of the string to be written

local formats = {} -- of a string, by the number of its buckets

local function formatOf(buckets)
  local f = formats[buckets]
  if not f then
    f = '<I8' .. string.rep('I8I8I8I8I8', buckets)
    formats[buckets] = f
  end
  return f
end

-- byKey returns the meters of each key of a plain plan, with what only this file uses of them.
local function byKey(plan)
  local keys = {}
  for i, l in ipairs(plan) do
    keys[l.place] = keys[l.place] or {first = i}
    table.insert(keys[l.place], l)
    l.charge = l.cost * l.period
    l.target = l.capacity * l.period - l.charge
  end
  return keys
end

-- openAll sets levels and busy of what a string holds, and reports whether those are the buckets that are asked for, and
-- none is from later than now.
local function openAll(meters, value, now)
  if #value ~= word + 5 * word * #meters then
    return false
  end
  meters.expires = unpackWords('<I8', value)
  if meters.expires > lastInstant(now) then
    return false
  end
  local n, at = meters.first, 1 + word
  for i = 1, #meters do
    local l = meters[i]
    local kind, ends, level, since, started = unpackWords('<I8I8I8I8I8', value, at)
    if kind ~= l.kind or ends > lastInstant(now) or level > maxExact or since > now or started > since then
      return false
    end
    level = level - (now - since) * l.rate
    if level < 0 then
      level = 0
    end
    levels[n], busy[n] = level, started
    n, at = n + 1, at + 5 * word
  end
  return true
end

-- openNew does so for a key without a string, and reports whether it is of no other type either.
local function openNew(meters, key)
  meters.expires = 0
  for n = meters.first, meters.first + #meters - 1 do
    levels[n], busy[n] = 0, 0
  end
  return call('EXISTS', key) == 0
end

-- chargeAll charges the buckets of a key that is open, and writes them.
local function chargeAll(meters, key, now)
  local n, w, last = meters.first, 2, 0
  for i = 1, #meters do
    local l, level, started = meters[i], levels[n], busy[n]
    if level < l.period then
      started = now
    end
    level = level + l.charge
    levels[n] = level
    local ends = now + (level + -level % l.rate) / l.rate
    ends = (ends + -ends % 1000) / 1000
    if ends > last then
      last = ends
    end
    words[w], words[w + 1], words[w + 2], words[w + 3], words[w + 4] = l.kind, ends, level, now, max(started, now - maxBusy)
    n, w = n + 1, w + 5
  end
  local renew = last > meters.expires
  if renew then
    meters.expires = last + slack
  end
  words[1] = meters.expires
  local value = packWords(formatOf(#meters), unpack(words, 1, w - 1))
  if renew then
    store(key, value, words[1], now)
  else
    call('SET', key, value, 'KEEPTTL')
  end
  latest[key] = value
end

-- openKeys opens all keys of a request, which begin at KEYS[first], and reports whether it can.
local function openKeys(keys, first, values, base, now)
  for k = 1, #keys do
    local key = KEYS[first + k - 1]
    local value, known = latest[key] or values[base + k], false
    if value then
      known = openAll(keys[k], value, now)
    else
      known = openNew(keys[k], key)
    end
    if not known then
      return false
    end
  end
  return true
end

-- takeOne decides a request that is open.
local function takeOne(plan, keys, first, now)
  local denied = false
  for i = 1, #plan do
    denied = denied or levels[i] > plan[i].target
  end
  for k = 1, denied and 0 or #keys do
    chargeAll(keys[k], KEYS[first + k - 1], now)
  end
  for i = 1, #plan do
    filled = filled + 1
    if denied then
      reply[filled] = -3 - levels[i]
    else
      reply[filled] = levels[i]
    end
  end
end

-- takePlain decides requests whose keys begin at KEYS[first]. Of each limit it replies the level or, if the request is
-- denied, -3 less the level. A request that it cannot decide it leaves to others, and so the later ones of its keys.
local function takePlain(plan, first, count, now, others)
  local keys, step = byKey(plan), plan.keys
  local values = call('MGET', unpack(KEYS, first, first + count * step - 1))
  for base = 0, (count - 1) * step, step do
    if openKeys(keys, first + base, values, base, now) then
      takeOne(plan, keys, first + base, now)
    else
      for k = first + base, first + base + step - 1 do
        latest[KEYS[k]] = ''
      end
      others(plan, first + base, now)
    end
  end
end
