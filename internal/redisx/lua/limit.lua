-- A plan: the limits that a request asks for, without its keys.
-- Uses ceilDiv, max (number), format, unpackWords, word (word).
--
-- Requests with the same plan are sent and decided together. The text of a plan has eight words for each limit of each
-- claim, of which a claim without limits has one:
--
--   head      1 if a claim begins + 2 for a peek + 4 for a dry run + 8 if it holds + 16 if it is leased + 32 · place of its key
--             among those of the request, from 1
--   kind      period in µs · 16 + algorithm · 4: 0 token bucket, 1 fixed window, 2 sliding window, 3 sliding log; or 4 for a limit
--             in flight, 0 for none
--   cost      of the claim
--   asked     the cost of all claims that charge this state
--   rate
--   capacity
--   unit      microseconds per tick of a token bucket, or per sub-bucket of a sliding window, else 0
--   ban       microseconds that a token bucket denies for once it is used up, else 0
local leaseWords = 5 -- of a leased claim: see lease.lua
local settleWords = 5 -- of a claim to be settled: see jobs.lua
local maxBusy = 4294967295 -- microseconds that busy of a token bucket may lie before at
local letters = {[0] = 'b', 'w', 's', 'l'}

-- readLimit returns the limit whose words begin at a byte of a plan. Its state is the field of that name: see pair.lua.
local function readLimit(text, at)
  local head, kind, cost, asked, rate, capacity, unit, ban = unpackWords('<I8I8I8I8I8I8I8I8', text, at)
  local flags, micros = head % 32, (kind - kind % 16) / 16
  local letter = micros > 0 and letters[kind % 16 / 4] or 'f'
  return {
    begins = flags % 2 == 1, peek = flags % 4 >= 2, dryRun = flags % 8 >= 4, hold = flags % 16 >= 8, leased = flags >= 16,
    place = (head - flags) / 32,
    letter = letter, name = letter .. format('%d', micros), micros = micros,
    cost = cost, asked = asked, rate = rate, capacity = capacity, unit = unit, ban = ban,
    period = letter == 'b' and ceilDiv(micros, unit), -- in ticks
  }
end

-- newPlan returns the limits of a plan, the number of keys, claims and leased claims that a request has, and the names of the
-- fields to be read of each key.
local function newPlan(text)
  local plan = {keys = 0, claims = 0, leases = 0, names = {}}
  for at = 1, #text, 8 * word do
    local l = readLimit(text, at)
    plan[#plan + 1] = l
    plan.keys, plan.claims = max(plan.keys, l.place), plan.claims + (l.begins and 1 or 0)
    plan.leases = plan.leases + (l.begins and l.leased and 1 or 0)
    local names = plan.names[l.place] or {'hold', 'ban'}
    plan.names[l.place] = names
    if l.letter ~= 'f' then
      table.insert(names, 1, l.name)
    end
  end
  return plan
end
