-- A pair of rule and key has one string with the states of its limits, and one sorted set if it has sliding logs. Each
-- is a key of its own. The string has a section for each state:
--
--   ; algorithm period , ends , state
--
-- ends is when the state no longer matters, in milliseconds since 1970, rounded up. The states of limits that are not
-- asked for, because a tier or a configuration has changed, are kept until then.
local repaired = 0 -- how many states made no sense and were replaced

local algorithms = {b = tokenBucket, w = fixedWindow, s = slidingWindow, l = slidingLog}
local known = {}

-- algorithmOf returns the functions of an algorithm. They are made when first asked for, since making them takes time.
local function algorithmOf(letter)
  known[letter] = known[letter] or algorithms[letter]()
  return known[letter]
end

local pairsByKey = {}

local function pairOf(key)
  local pair = pairsByKey[key]
  if not pair then
    pair = {key = key, states = {}, lengths = 0, changed = {}}
    pairsByKey[key] = pair
  end
  return pair
end

-- isWrongType reports whether reply is the error of a command for another type of value. It raises all other errors.
local function isWrongType(reply)
  local err = type(reply) == 'table' and reply.err
  if err and not find(err, 'WRONGTYPE', 1, true) then
    error(err, 0)
  end
  return err
end

-- valueOf returns the string of a pair, '' if it has none, or nil if what it has makes no sense.
local function valueOf(pair)
  local value = redis.pcall('GET', pair.key)
  if isWrongType(value) then
    return nil
  end
  if not value then
    return ''
  end
  return match(value, '^;[bws]%d+,') and value
end

-- section returns the state of this kind in the string of a pair and when it ends, nil if there is none, or false if
-- what there is makes no sense.
local function section(pair, kind, now)
  local _, before = find(pair.value, ';' .. kind .. ',', 1, true)
  if not before then
    return nil
  end
  local after = find(pair.value, ';', before + 1, true) or #pair.value + 1
  local ends, text = match(sub(pair.value, before + 1, after - 1), '^(%d+),(.*)$')
  ends = exact(ends)
  if not ends or ends > (now + 2 * maxExact) / 1000 then
    return false
  end
  pair.lengths = pair.lengths + #kind + 1 + after - before
  return algorithmOf(sub(kind, 1, 1)).read(text) or false, ends
end

-- put makes state that of its kind in a pair.
local function put(pair, kind, state, ends)
  pair.states[kind] = state
  pair.changed[kind] = ends
  pair.dirty = true
end

-- sections returns the string of a pair as it is to be, and when it ends.
local function sections(pair, now)
  local kept, last = {}, 0
  local function keep(kind, ends, text)
    if ends > now then
      kept[#kept + 1] = format(';%s,%.0f,%s', kind, ends, text)
      last = max(last, ends)
    end
  end
  for kind, state in pairs(pair.states) do
    local ends = pair.changed[kind] or pair.ends[kind]
    if ends then
      keep(kind, ends, algorithmOf(sub(kind, 1, 1)).write(state))
    end
  end
  if pair.lengths ~= #pair.value then
    for kind, ends, text in string.gmatch(pair.value, ';([bws]%d+),(%d+),([^;]*)') do
      if not pair.states[kind] then
        keep(kind, exact(ends) or 0, text)
      end
    end
  end
  return table.concat(kept), last
end

-- save writes the string of a pair. It expires when the last of its states no longer matters.
local function save(pair, now)
  now = floorDiv(now, 1000)
  local value, ends = sections(pair, now)
  if value == '' then
    call('DEL', pair.key)
  else
    call('SET', pair.key, value, 'PX', ends - now)
  end
end
