-- The state of a SlidingLog: when requests were admitted that still count. See core/sliding.go, where it is a queue too.
-- It is a sorted set, of which a decision reads the oldest entry that counts and the newest. All scores are 0, so that
-- the members sort by their text:
--
--   period : stamp : sum : count
--
-- What was admitted in one microsecond is one entry with a count, so no two members are alike, whoever adds them. A sum
-- is that of all counts up to the entry, so that two entries tell what was admitted between them. Entries that no longer
-- count are left alone until some requests are admitted, a few for each.
local function slidingLog()
  local pruned = 16 -- entries that a charge removes at most

  local function member(l, stamp, sum, count)
    return format('%015d:%016d:%d:%d', l.micros, stamp, sum, count)
  end

  -- from and beyond are the bounds of a range by text: of the entries of l that are not before a stamp.
  local function from(l, stamp)
    return format('[%015d:%016d:', l.micros, max(0, stamp))
  end
  local function beyond(l)
    return format('(%015d;', l.micros)
  end

  local function entry(text)
    local stamp, sum, count = match(text or '', '^%d+:(%d+):(%d+):(%d+)$')
    local e = {text = text, stamp = exact(stamp), sum = exact(sum), count = exact(count)}
    if e.stamp and e.sum and e.count then
      return e
    end
  end

  -- add puts an entry into the set of q, which may be new, and sees to it that it stays as long as the entry counts, and
  -- as long as it would have stayed.
  local function add(q, l, stamp, sum, count)
    local text = member(l, stamp, sum, count)
    call('ZADD', q.key, 0, text)
    call('PEXPIRE', q.key, max(ceilDiv(l.micros, 1000), call('PTTL', q.key)))
    return {text = text, stamp = stamp, sum = sum, count = count}
  end

  local function remove(q, members)
    for i = 1, #members, 1000 do
      call('ZREM', q.key, unpack(members, i, min(i + 999, #members)))
    end
  end

  -- usedOf returns what the entries from first to last sum up to.
  local function usedOf(first, last)
    return last.sum - first.sum + first.count
  end

  -- load returns what the set at key, of this size, says of l at now, or nil if that makes no sense.
  local function load(key, l, now, size)
    if size == 0 then
      return {key = key, used = 0}
    end
    local counts = from(l, now - l.micros + 1)
    local first = call('ZRANGEBYLEX', key, counts, beyond(l), 'LIMIT', 0, 1)[1]
    if not first then
      if size ~= call('ZCOUNT', key, 0, 0) then
        return nil -- members with scores have spoilt the order
      end
      return {key = key, used = 0}
    end
    local last = call('ZREVRANGEBYLEX', key, beyond(l), counts, 'LIMIT', 0, 1)[1]
    local q = {key = key, first = entry(first), last = entry(last)}
    if q.first and q.last and q.first.stamp > now - l.micros then
      q.used = usedOf(q.first, q.last)
      if q.used > 0 and q.used <= 10000 then
        return q
      end
    end
  end

  -- replace returns q with one entry at now in place of all that are not before: those made at now, and those made later
  -- by a clock that has since gone back. The entry counts for them and for cost.
  local function replace(q, l, now, cost)
    local later = call('ZRANGEBYLEX', q.key, from(l, now), beyond(l))
    local oldest = entry(later[1]) or {sum = 0, count = 0}
    local count = usedOf(oldest, q.last) + cost
    local newest = add(q, l, now, q.last.sum + cost, count)
    remove(q, later)
    local first = q.first
    if first.stamp >= now then
      first = newest
    end
    return {key = q.key, used = q.used + cost, first = first, last = newest}
  end

  -- rewind returns q after the clock went back to now, or nil if it did not.
  local function rewind(q, l, now)
    if q.last and q.last.stamp > now then
      return replace(q, l, now, 0)
    end
  end

  -- shrink returns how long after now q takes to shrink to target. In Go it is called until. It searches by rank.
  local function shrink(q, l, now, target)
    if q.used <= target then
      return 0
    end
    local e = q.first
    if q.last.sum - e.sum > target then
      local low, high = call('ZRANK', q.key, e.text), call('ZRANK', q.key, q.last.text)
      while low < high do
        local middle = floor((low + high) / 2)
        e = entry(call('ZRANGE', q.key, middle, middle)[1])
        if e and q.last.sum - e.sum > target then
          low = middle + 1
        else
          high = middle
        end
      end
      e = entry(call('ZRANGE', q.key, low, low)[1]) or q.last
    end
    return e.stamp + l.micros - now
  end

  -- prune removes some of the entries of l that no longer count at now.
  local function prune(q, l, now)
    local dead = '(' .. sub(from(l, now - l.micros + 1), 2)
    remove(q, call('ZRANGEBYLEX', q.key, from(l, 0), dead, 'LIMIT', 0, pruned))
  end

  -- charge returns q with cost in it.
  local function charge(q, l, now, cost)
    if q.last and q.last.stamp == now then
      return replace(q, l, now, cost)
    end
    local sum = cost
    if q.last then
      sum = q.last.sum + cost
    end
    local newest = add(q, l, now, sum, cost)
    prune(q, l, now)
    return {key = q.key, used = q.used + cost, first = q.first or newest, last = newest}
  end

  -- refund returns q without a charge of cost at an earlier instant, if that still counts. The sums of later entries
  -- shrink by what is given back.
  local function refund(q, l, now, at, cost)
    if at + l.micros <= now then
      return q
    end
    local later = call('ZRANGEBYLEX', q.key, from(l, at), beyond(l))
    local e = entry(later[1])
    if not e or e.stamp ~= at then
      return q
    end
    local given = min(e.count, cost)
    for i = 1, #later do
      e = entry(later[i])
      if i == 1 then
        e.count = e.count - given
      end
      if e.count > 0 then
        call('ZADD', q.key, 0, member(l, e.stamp, e.sum - given, e.count))
      end
    end
    remove(q, later)
    return load(q.key, l, now, call('ZCARD', q.key))
  end

  return {
    load = load, rewind = rewind, charge = charge, refund = refund,

    settle = function(q)
      return q
    end,

    -- wait returns how long after now q admits cost, which is at most the rate.
    wait = function(q, l, now, cost)
      return shrink(q, l, now, l.rate - cost)
    end,

    -- report returns what q leaves: remaining, refill, reset.
    report = function(q, l, now)
      local remaining = max(0, l.rate - q.used)
      if remaining == l.rate then
        return remaining, 0, 0
      end
      return remaining, shrink(q, l, now, l.rate - remaining - 1), q.last.stamp + l.micros - now
    end,

    -- full puts a limit just used up in place of what the set holds of l and of strangers, or in place of what is no set.
    full = function(key, l, now, isSet)
      local q = {key = key, used = l.rate}
      if isSet then
        call('ZREMRANGEBYSCORE', key, '-inf', '(0')
        call('ZREMRANGEBYSCORE', key, '(0', '+inf')
        remove(q, call('ZRANGEBYLEX', key, from(l, 0), beyond(l)))
      else
        call('DEL', key)
      end
      if l.rate > 0 then
        q.first = add(q, l, now, l.rate, l.rate)
        q.last = q.first
      end
      return q
    end,
  }
end
