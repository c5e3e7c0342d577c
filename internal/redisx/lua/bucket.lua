-- Requests of one token bucket each, which nearly all are, several at once. In one loop without calls or tables they take the
-- server two thirds of what buckets.lua takes, of which this is the case of one key and one bucket.
local maxLevel = maxExact - 3 -- of a plain bucket: -3 less that is exact too

-- takeSingle is takePlain for a plan of one bucket. Repeats says whether keys may be there more than once.
local function takeSingle(plan, first, count, repeats, now, others)
  local latest = repeats and {} -- strings written since they were read, by key
  local KEYS, reply, n = KEYS, reply, filled
  local kind, period, rate = plan[1].kind, plan[1].micros, plan[1].rate
  local charge = plan[1].cost * period
  local target, last = plan[1].capacity * period - charge, lastInstant(now)
  local values = call('MGET', unpack(KEYS, first, first + count - 1))
  for i = 1, count do
    local key = KEYS[first + i - 1]
    local value = latest and latest[key] or values[i]
    local known, expires, same, ends, level, at, started = true, 0, kind, 0, 0, now, 0
    if not value then
      known = call('EXISTS', key) == 0
    elseif #value == 6 * word then
      expires, same, ends, level, at, started = unpackWords('<I8I8I8I8I8I8', value)
      known = same == kind and expires <= last and ends <= last and level <= maxLevel and started <= at and at <= now
    else
      known = false
    end
    if known then
      level = level - (now - at) * rate
      if level < 0 then
        level = 0
      end
      n = n + 1
      if level > target then
        reply[n] = -3 - level
      else
        if level < period then
          started = now
        elseif started < now - maxBusy then
          started = now - maxBusy
        end
        level = level + charge
        reply[n] = level
        ends = now + (level + -level % rate) / rate
        ends = (ends + -ends % 1000) / 1000
        local changed = packWords('<I8I8I8I8', ends, level, now, started)
        if ends <= expires then
          call('SETRANGE', key, '16', changed) -- after two words; a number would have to be made text
        else
          expires = ends + slack
          store(key, packWords('<I8I8', expires, kind) .. changed, expires, now)
        end
        if latest then
          latest[key] = packWords('<I8I8', expires, kind) .. changed
        end
      end
    else
      if latest then
        latest[key] = ''
      end
      filled = n
      others(plan, first + i - 1, now)
      n = filled
    end
  end
  filled = n
end
