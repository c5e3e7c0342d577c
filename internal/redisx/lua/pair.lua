-- A pair of rule and key has one string with the states of its limits, and one sorted set if it has sliding logs. Each
-- is a key of its own. The string has a section for each state:
--
--   ; algorithm period , ends , state
--
-- ends is when the state no longer matters, in milliseconds since 1970, rounded up. The states of limits that are not
-- asked for, because a tier or a configuration has changed, are kept until then.
local repaired = 0 -- how many states made no sense and were replaced

local algorithms = {b = tokenBucket, w = fixedWindow, s = slidingWindow, l = slidingLog}
local made = {}

-- algorithmOf returns the functions of an algorithm. They are made when first asked for, since making them takes time.
local function algorithmOf(letter)
  local a = made[letter]
  if not a then
    a = algorithms[letter]()
    made[letter] = a
  end
  return a
end

local pairsOf = {} -- the pairs by the places of their keys

local function pairOf(place)
  local pair = pairsOf[place]
  if not pair then
    pair = {key = KEYS[tonumber(place)], states = {}, value = false, length = 0, broken = false, dirty = false}
    pairsOf[place] = pair
  end
  return pair
end

-- isWrongType reports whether reply is the error of a command for another type of value. It raises all other errors.
local function isWrongType(reply)
  if type(reply) ~= 'table' then
    return false
  end
  if not find(reply.err, 'WRONGTYPE', 1, true) then
    error(reply.err, 0)
  end
  return true
end

-- fetch reads the string of a pair: '' if it has none. The pair is broken if what it has makes no sense.
local function fetch(pair)
  local value = redis.pcall('GET', pair.key)
  if not value then
    value = ''
  elseif isWrongType(value) or not find(value, '^;[bws]%d+,') then
    value, pair.broken = '', true
  end
  pair.value = value
end

-- section returns the state of a limit in the string of a pair, nil if there is none, or false if what there is makes no
-- sense.
local function section(pair, l, now)
  local value = pair.value
  if value == '' then
    return nil
  end
  local start, before = find(value, l.section, 1, true)
  if not start then
    return nil
  end
  local ends, text = match(value, '^(%d+),()', before + 1)
  ends = exact(ends)
  if not ends or ends > (now + 2 * maxExact) / 1000 then
    return false
  end
  local state, after = l.algorithm.read(value, text)
  if not state or after <= #value and sub(value, after, after) ~= ';' then
    return false
  end
  state.ends = ends
  pair.length = pair.length + after - start
  return state
end

-- sections returns the string of a pair as it is to be, and when it ends. What ended before now is left out.
local function sections(pair, now)
  local kept, last = '', 0
  for kind, state in pairs(pair.states) do
    local ends = state.ends
    if ends > now then
      kept = kept .. format(';%s,%d,', kind, ends) .. algorithmOf(sub(kind, 1, 1)).write(state)
      last = max(last, ends)
    end
  end
  if pair.length ~= #pair.value then -- there are others
    for kind, ends, text in string.gmatch(pair.value, ';([bws]%d+),(%d+),([^;]*)') do
      ends = exact(ends)
      if ends and ends > now and not pair.states[kind] then
        kept = kept .. format(';%s,%d,', kind, ends) .. text
        last = max(last, ends)
      end
    end
  end
  return kept, last
end

-- save writes the string of a pair. It expires when the last of its states no longer matters.
local function save(pair, now)
  now = floorDiv(now, 1000)
  local value, ends = sections(pair, now)
  if value == '' then
    call('DEL', pair.key)
  else
    call('SET', pair.key, value, 'PX', format('%d', ends - now))
  end
end

local function saveAll(now)
  for _, pair in pairs(pairsOf) do
    if pair.dirty then
      save(pair, now)
    end
  end
end
