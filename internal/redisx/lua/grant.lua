-- What a limit that counts windows or entries was granted on top of its rate. Mirrors internal/algorithm.
--
-- A grant is a record directly behind the limit's record. Its words are the number of requests plus grantZero (+1),
-- because a grant may take requests away, and when the grant ends (+2). The limit's count of used requests does not
-- change, so that a refund never becomes a grant.
local grantKind, grantSize, grantZero = 2, 3, 4503599627370496 -- 2^52
local maxGrant = 1073741823

-- hasGrant reports whether the record of a size at o has a grant, which may have ended.
local function hasGrant(w, o, size)
  return w[o + size] == grantKind
end

-- grantOf returns what the limit whose record of a size is at o was granted, and until when.
local function grantOf(w, o, size, now)
  local at = o + size
  if hasGrant(w, o, size) and now < w[at + 2] then
    return w[at + 1] - grantZero, w[at + 2]
  end
  return 0, 0
end

-- addGrant adds n to what was granted, until an instant.
local function addGrant(w, o, size, now, n, ends)
  local at, before = o + size, grantOf(w, o, size, now)
  if not hasGrant(w, o, size) then
    resize(w, at, grantSize)
    w[at] = grantKind
    anyRare = true
  end
  w[at + 1], w[at + 2] = grantZero + max(-maxGrant, min(before + n, maxGrant)), ends
end

-- moveGrant changes the end of a grant, if there is one: the clock went back, and the limit counts in another window.
local function moveGrant(w, o, size, ends)
  if hasGrant(w, o, size) then
    w[o + size + 2] = ends
  end
end

-- removeGrant removes a grant, if there is one.
local function removeGrant(w, o, size)
  if hasGrant(w, o, size) then
    resize(w, o + size, -grantSize)
  end
end
