import { kernelError } from '../api/errors.js'
import { isLoopback } from '../net/addresses.js'
import { relayedOnly, type CallerSchemes } from './callers.js'
import { mayUse, type Caller, type RouteDecl } from '../api/plugin.js'
import type { Clock } from '../api/clock.js'
import type { Arrival, Proof } from '../api/callers.js'
export type { Arrival, Proof } from '../api/callers.js'

export interface AccessOptions {
  tokens: { check (token: string): Omit<Caller, 'mode'> | undefined }
  schemes: CallerSchemes
  /** The `access.local` setting: authorities of a loopback request without a token. */
  local: ReadonlySet<string>
  clock: Clock
}

/** Failed attempts that an address may make per minute; beyond that, answers are 429. */
const FAILURES_PER_MINUTE = 10
const FAILURE_WINDOW_MS = 60_000

/**
 * Finds the caller of a request: the holder of a token, a caller admitted by a plugin's scheme (a paired
 * device), or loopback with the `access.local` authorities. Clients of foreign APIs always send a key, so
 * over loopback a key that does not look like a token is ignored. Relayed requests are never loopback or
 * anonymous and cannot use tokens. Throws `unauthenticated`, a scheme's own errors, or `overloaded` after too
 * many bad credentials.
 */
export function createAccess (options: AccessOptions): (arrival: Arrival) => Proof {
  const { clock, local, schemes, tokens } = options
  const failures = failureCounter(clock)
  const here: Proof = { caller: { id: 'local', mode: 'direct', authorities: local } }
  return (arrival) => {
    const { authorization, device, indirect, remoteAddress } = arrival
    const proof = schemes.check(arrival)
    if (proof !== undefined) return proof
    if (device !== null) throw relayedOnly()
    const isHere = (): boolean => !indirect && isLoopback(remoteAddress) && schemes.trusts(arrival)
    if (authorization === undefined) {
      return isHere() ? here : { caller: { id: 'anonymous', mode: 'direct', authorities: new Set() } }
    }
    const token = /^Bearer +(\S+)$/i.exec(authorization)?.[1]
    const holder = token === undefined ? undefined : tokens.check(token)
    if (holder !== undefined) return { caller: { ...holder, mode: 'direct' } }
    if (token !== undefined && !token.startsWith('svc_') && isHere()) return here
    failures.add(remoteAddress)
    throw kernelError('unauthenticated', token === undefined
      ? 'The credential is invalid here; `svc device pair URL` pairs a device again.'
      : 'The token is invalid here; `svc token create` on the node\'s host creates one.')
  }
}

function failureCounter (clock: Clock): { add (address: string): void } {
  const seen = new Map<string, number[]>()
  return {
    add (address) {
      const now = clock.mono()
      const recent = (seen.get(address) ?? []).filter((at) => now - at < FAILURE_WINDOW_MS)
      if (recent.length >= FAILURES_PER_MINUTE) {
        throw kernelError('overloaded', 'Too many invalid tokens from this address.',
          { retryAfterSeconds: 60 })
      }
      seen.set(address, [...recent, now])
      if (seen.size > 10_000) seen.delete(seen.keys().next().value!)
    }
  }
}

/**
 * Throws unless the caller has the route's authority. A forwarded request has the authorities that the
 * forwarding member vouches for, and may use only routes that are open to members.
 */
export function authorize (
  caller: Caller, { authority, members }: Pick<RouteDecl, 'authority' | 'members'>, member: string | undefined
): void {
  if (member !== undefined && members !== true) {
    throw kernelError('missing_grant', 'Nodes do not forward this route: request it at this node directly.')
  }
  requireAuthority(caller, authority)
}

/** Throws `model_not_allowed` unless the caller may use the model. */
export function requireModel (caller: Caller, modelId: string): void {
  if (mayUse(caller, modelId)) return
  const models = caller.models!
  throw kernelError('model_not_allowed',
    `This key may not use the model ${modelId.slice(0, 200)}, only ${models.join(', ')}.`, { models })
}

/** Throws unless the caller has the route's authority (`null`: none needed). */
export function requireAuthority (
  caller: Caller, authority: string | null, needed = `This needs the authority "${authority}"`
): void {
  if (authority === null || caller.authorities.has(authority)) return
  // By default, new tokens get `read` and `invoke`; most programs need `read` as well as others.
  const words = authority === 'read' || authority === 'invoke' ? '' : ` --authority read ${authority}`
  const make = `\`svc token create NAME${words}\` on the node's host creates one`
  if (caller.id === 'local' || caller.id === 'anonymous') {
    throw kernelError('unauthenticated', `${needed}: send a token that has it (${make}; \`svc\` there uses ` +
      'operator.token automatically).', { authority })
  }
  const lacking = caller.mode === 'relay' ? 'which the device does not have through a relay'
    : caller.mode === 'paired' ? 'which the device does not have' : 'which the token does not have'
  const remedy = caller.mode === 'direct' ? ` (${make})` : ''
  throw kernelError('missing_grant', `${needed}, ${lacking}${remedy}.`, { authority })
}
