-- The pair of a rule and a key is one hash. Uses ceilDiv, floorDiv, max, maxExact (number), unpackWords, word (word), repaired, call
-- (reply), tokenBucket, fixedWindow, sliding.
--
-- A hash has a field for the state of each limit, named after its algorithm and its period in µs, as b60000000. A field begins
-- with a word that says until when, in milliseconds since 1970, the hash is certain to be kept; the state ends before that.
-- Fields of limits that a tier or a configuration no longer has are left alone until they have ended.
--
--   b   token bucket     expires, level, at, busy, rate, slowest · 4 + code of the tick
--   w   fixed window     expires, used, start
--   s   sliding window   expires, used, number of blocks, list of blocks, entries: see sliding.lua and block.lua
--   l   sliding log      likewise
local algorithms = {b = tokenBucket, w = fixedWindow, s = sliding, l = sliding}

-- readPair returns the pair at key, with these fields. One that is of another type is removed, and counts as used up.
local function readPair(key, names)
  local pair = {key = key, names = names, states = {}, dirty = {}, expires = 0}
  local values = redis.pcall('HMGET', key, unpack(names))
  if not values.err then
    pair.values = values
  elseif string.find(values.err, 'WRONGTYPE', 1, true) then
    call('DEL', key)
  else
    error(values.err, 0)
  end
  return pair
end

-- keepState makes state the one that is stored.
local function keepState(pair, l, state)
  pair.states[l.name], pair.dirty[l.name] = state, l
end

-- valueOf returns the field of l.
local function valueOf(pair, l)
  for i, name in ipairs(pair.names) do
    if name == l.name then
      return pair.values[i]
    end
  end
end

-- stateOf returns the state of l. One that makes no sense becomes that of a limit just used up, which neither admits anew
-- nor denies for ever.
local function stateOf(pair, l, now)
  local state = pair.states[l.name]
  if state then
    return state
  end
  local algorithm, value = algorithms[l.letter], pair.values and valueOf(pair, l)
  if pair.values and not value then
    state = algorithm.empty(l, pair)
    pair.states[l.name] = state
    return state
  end
  local expires = value and expiryOf(value, now)
  state = expires and algorithm.decode(value, l, pair)
  if state then
    pair.expires = max(pair.expires, expires)
    pair.states[l.name] = state
    return state
  end
  repaired = repaired + 1
  state = algorithm.full(l, now, pair)
  keepState(pair, l, state)
  return state
end

-- resetAt returns when a pair was last reset: see reset.lua.
local function resetAt(pair)
  local value = pair.values and call('HGET', pair.key, 'reset')
  if not value or #value ~= 2 * word then
    return 0
  end
  return (unpackWords('<I8', value, word + 1))
end

-- storeStates stores the states of a pair that have changed, to be kept until expires. Those that have ended are removed.
local function storeStates(pair, expires, now)
  local ended = {}
  for name, l in pairs(pair.dirty) do
    local algorithm, state = algorithms[l.letter], pair.states[name]
    local value = algorithm.encode(state, expires)
    if algorithm.ends(state, l) >= now - now % 1000 then
      call('HSET', pair.key, name, value)
    else
      ended[#ended + 1] = name
    end
  end
  if #ended > 0 then -- at last: a key that has been removed cannot be written in a slot that migrates
    call('HDEL', pair.key, unpack(ended))
  end
end

-- savePair stores what has changed of a pair.
local function savePair(pair, now)
  local last = 0
  for name, l in pairs(pair.dirty) do
    last = max(last, ceilDiv(algorithms[l.letter].ends(pair.states[name], l), 1000))
  end
  if last == 0 then
    return
  end
  local milliseconds = floorDiv(now, 1000)
  local expires = expiryWith(pair.key, pair.expires, last, milliseconds)
  storeStates(pair, expires, now)
  if expires > pair.expires then
    call('PEXPIRE', pair.key, expires - milliseconds)
  end
end
