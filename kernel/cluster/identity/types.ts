/** The key a node is known by on links, and the certificate that carries it. */
export interface NodeKey {
  readonly installId: string
  /** PKCS8, Ed25519. Never logged, never sent. */
  readonly privateKeyPem: string
  /** Self-signed, CN = installId; only its key means anything. */
  readonly certificatePem: string
  /** base64url SHA-256 of the public key's SPKI DER, 43 characters. */
  readonly fingerprint: string
}

/** One node that belongs to the cluster. */
export interface Member {
  installId: string
  fingerprint: string
  name: string
  /** host:port of its members' listener, IPv6 in []. */
  addresses: readonly string[]
  /** ISO 8601. */
  joinedAt: string
}

/** A member as it describes itself, before it was admitted. */
export type Candidate = Omit<Member, 'joinedAt'>

/** A key that was a member's and never is again. */
export interface Removed {
  installId: string
  fingerprint: string
  /** ISO 8601. */
  at: string
}

/** Who belongs to the cluster, as this node last learned it. */
export interface Membership {
  clusterId: string
  members: readonly Member[]
  removed: readonly Removed[]
}

/** The members file of this home. */
export interface Members {
  current (): Membership
  find (installId: string): Member | undefined
  /** Undefined for unknown and for removed keys. */
  byFingerprint (fingerprint: string): Member | undefined
  isRemoved (fingerprint: string): boolean
  /**
   * Replaces the whole: written durably first, then onChange when it differs. Throws SvcError
   * invalid_request naming the field that makes no sense; nothing has changed then. When the disk refuses,
   * what is newly removed counts all the same.
   */
  replace (next: Membership): void
  /** Returns what ends it. */
  onChange (fn: () => void): () => void
}

export interface MembersOptions {
  home: string
  self: Candidate
  /** Wall time, milliseconds since 1970. */
  now: () => number
}

/** What an inviter puts into a join token besides its id and secret. */
export interface Invitation {
  clusterId: string
  /** Addresses of the inviter's members' listener, host:port. */
  seeds: readonly string[]
  /** The inviter's. */
  fingerprint: string
}

/** What a joiner asks with; `binding` comes from the socket the request came on (joinBinding). */
export interface Redemption {
  tokenId: string
  proof: string
  binding: Buffer
  joinerFingerprint: string
}

/** An open join token as it is shown: never its secret. `by`: the id of the caller that made it. */
export interface JoinTokenRecord { id: string, expires: string, by: string }

/** The join tokens this node has made. */
export interface JoinTokens {
  /** Throws SvcError invalid_request (ttlSeconds, seeds) and overloaded (too many are open). */
  create (options: Invitation & { ttlSeconds: number, by: string }): { token: string, expires: string }
  /** Those that still let a node in. */
  list (): JoinTokenRecord[]
  /** Ends one before its time; false when no such token is open. */
  revoke (id: string): boolean
  /**
   * Checks the proof of a joiner and uses the token up; the mark is on disk before this returns. What comes
   * back opens it again: for a joiner that could not be let in after all. Throws SvcError join_refused with
   * details.why: unknown | expired | used | wrong_proof.
   */
  redeem (request: Redemption): () => void
  /** How many are open. */
  readonly pending: number
  /** One that is open names an address which other machines reach. */
  readonly awaitsOthers: boolean
}

/** A join token, read. */
export interface JoinTicket extends Invitation {
  id: string
  secret: string
  /** Milliseconds since 1970. */
  exp: number
}

/** Body of POST /join. */
export interface JoinRequest {
  token_id: string
  proof: string
  member: Candidate
}
