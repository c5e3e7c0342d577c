-- Forgets what pairs were charged.
-- Uses floorDiv (number), pack (word), call, clock, reply (reply).
--
-- KEYS: the keys of the pairs.
-- ARGV: the shift of the clock.
--
-- A pair remembers its last reset for as long as it would have been kept, so that what was charged before is not given back
-- out of what was charged since: in the field reset, the expiry of the key and the instant. What is held stays.
local now = clock()
for _, key in ipairs(KEYS) do
  local left = call('PTTL', key)
  if left > 0 and call('TYPE', key).ok == 'hash' then
    call('HSET', key, 'reset', pack('<I8I8', floorDiv(now, 1000) + left, now))
    for _, field in ipairs(call('HKEYS', key)) do
      if field ~= 'reset' and field ~= 'hold' then
        call('HDEL', key, field)
      end
    end
  else
    call('UNLINK', key)
  end
end
return reply
