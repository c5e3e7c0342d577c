-- What a limit that counts windows or entries was granted on top of its rate. Mirrors internal/algorithm.
--
-- Each grant is a record; they stand directly behind the limit's record, in the order of their ends. Its words are the number of
-- requests plus grantZero (+1), because a grant may take requests away, and when the grant ends (+2). The limit's count of
-- used requests does not change, so that a refund never becomes a grant.
local grantKind, grantSize, grantZero = 2, 3, 4503599627370496 -- 2^52
local maxGrant, maxGrants = 1073741823, 60

-- hasGrant reports whether the record of a size at o has grants.
local function hasGrant(w, o, size)
  return w[o + size] == grantKind
end

-- limited returns n as far as a grant can say it.
local function limited(n)
  return max(-maxGrant, min(n, maxGrant))
end

-- countOf returns how many requests the grant at a place is.
local function countOf(w, at)
  return limited(w[at + 1] - grantZero)
end

-- grantOf returns what the limit whose record of a size is at o, which was loaded, is granted now.
local function grantOf(w, o, size)
  local at, sum = o + size, 0
  while w[at] == grantKind do
    sum = sum + countOf(w, at)
    at = at + grantSize
  end
  return sum
end

-- mergeGrants makes one of the two of count grants whose ends are closest, so that at no instant more is granted than before.
-- The first is at a place.
local function mergeGrants(w, first, count)
  local closest, distance = first, 2 * maxExact
  for at = first, first + grantSize * (count - 2), grantSize do
    local d = w[at + grantSize + 2] - w[at + 2]
    if d < distance then
      closest, distance = at, d
    end
  end
  local last = countOf(w, closest + grantSize)
  local n, ends = limited(countOf(w, closest) + last), w[closest + 2]
  if last < 0 then -- until its end
    n, ends = min(n, last), w[closest + grantSize + 2]
  end
  resize(w, closest, n == 0 and -2 * grantSize or -grantSize)
  if n ~= 0 then
    w[closest + 1], w[closest + 2] = grantZero + n, ends
  end
end

-- addGrant grants n requests until an instant.
local function addGrant(w, o, size, n, ends)
  local at, count = o + size, 0
  while w[at] == grantKind and w[at + 2] < ends do
    at, count = at + grantSize, count + 1
  end
  if w[at] == grantKind and w[at + 2] == ends then
    n = countOf(w, at) + n
  else
    resize(w, at, grantSize)
    w[at], w[at + 2], anyRare = grantKind, ends, true
  end
  w[at + 1] = grantZero + limited(n)
  if n == 0 then
    return resize(w, at, -grantSize)
  end
  while w[at] == grantKind do
    at, count = at + grantSize, count + 1
  end
  if count > maxGrants then
    mergeGrants(w, o + size, count)
  end
end

-- advanceGrants removes grants that have ended at now. A grant that ends after latest shows that the clock went back, and ends
-- then: advanceGrants reports whether there was one, which must be stored.
local function advanceGrants(w, o, size, now, latest)
  local at, later, isLater = o + size, 0, false
  while w[at] == grantKind do
    if w[at + 2] > latest then
      later = later + countOf(w, at)
      isLater = true
    end
    if w[at + 2] <= now or w[at + 2] > latest then
      resize(w, at, -grantSize)
    else
      at = at + grantSize
    end
  end
  if later ~= 0 then
    addGrant(w, o, size, later, latest)
  end
  return isLater
end

-- removeGrants removes all grants.
local function removeGrants(w, o, size)
  while hasGrant(w, o, size) do
    resize(w, o + size, -grantSize)
  end
end
