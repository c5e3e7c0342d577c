-- How long a pair is kept.
-- Uses max, maxExact (number), unpackWords, word (word), call (reply).
--
-- Each field of a pair begins with a word that says until when the hash is certain to be kept, in milliseconds since 1970; the
-- state in the field ends before that.
local slack = 1000 -- milliseconds that a hash is kept for longer, so that not every request has to prolong that
local manyFields = 16

-- expiryOf returns the first word of a field, or nil if that cannot be one.
local function expiryOf(value, now)
  local expires = #value >= word and unpackWords('<I8', value)
  if expires and expires <= (now + 2 * maxExact) / 1000 then
    return expires
  end
end

-- dropEnded removes the fields of a pair that ended before now, in milliseconds.
local function dropEnded(key, now)
  local all = call('HGETALL', key)
  for i = 1, #all, 2 do
    if #all[i + 1] < word or unpackWords('<I8', all[i + 1]) < now then
      call('HDEL', key, all[i])
    end
  end
end

-- expiryWith returns until when a pair has to be kept, in milliseconds like all times here: it is kept until known at least,
-- and has a state that ends at last. The expiry of a busy key so changes once in a second; then what has ended is dropped, if
-- there is much.
local function expiryWith(key, known, last, now)
  if last <= known then
    return known
  end
  local left = call('PTTL', key)
  if left > 0 and call('HLEN', key) > manyFields then
    dropEnded(key, now)
  end
  return now + max(left, last + slack - now)
end
