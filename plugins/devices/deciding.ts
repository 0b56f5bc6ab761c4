import { badField, kernelError, requireAuthority, type Caller } from '../../kernel/index.js'
import { GRANT, grantBytes, type Grant, type KnownNode } from './signing/protocol.js'
import { isDeviceId, LONGEST_MS } from './grants.js'
import { CHECK_MS } from './validity.js'
import type { DeviceStore } from './store.js'
import type { DevicesContext } from './manifest.js'
import type { Pairing, PairingWindowOptions } from './pairing.js'
import type { SignIn } from './sign-in.js'

const DAY_MS = 86_400_000
const USUAL_DAYS = 90
const USUAL_OFFLINE_SECONDS = 86_400
const USUAL = ['read', 'invoke'] as const

/** An operator's choices for a new device; omitted ones get default values. */
export type Choice = Partial<{
  name: string, authorities: readonly string[], viaRelay: readonly string[], expires: string,
  maxOfflineSeconds: number
}>

export interface DecidingParts {
  book: DeviceStore
  pairing: Pairing
  hear: () => void
  /** The cluster's nodes, in the form that a device receives during pairing. */
  nodes: () => Promise<KnownNode[]>
}

const text = (raw: Uint8Array): string => Buffer.from(raw).toString('base64url')

export class Deciding {
  readonly #ctx: DevicesContext
  readonly #parts: DecidingParts

  constructor (ctx: DevicesContext, parts: DecidingParts) {
    this.#ctx = ctx
    this.#parts = parts
    ctx.every('devices of revoked tokens', CHECK_MS, () => { void this.#endWithTokens() })
  }

  /** Adds defaults. Throws `invalid_request`, and `missing_grant` for authorities that the caller lacks. */
  wish (choice: Choice, caller: Caller, base?: PairingWindowOptions): Omit<PairingWindowOptions, 'by'> {
    const authorities = choice.authorities ?? base?.authorities ?? USUAL
    const left = choice.viaRelay ?? (choice.authorities === undefined ? base?.viaRelay : undefined)
    const maker = this.#parts.book.grant(this.#origin(caller).id)
    const viaRelay = left ?? USUAL.filter((authority) =>
      authorities.includes(authority) && maker?.viaRelay.includes(authority) !== false)
    for (const authority of authorities) {
      if (!this.#isKnown(authority)) {
        throw badField('authorities', `has "${authority}", which is not an authority`)
      }
      requireAuthority(caller, authority)
    }
    const more = viaRelay.find((authority) => !authorities.includes(authority))
    if (more !== undefined) throw badField('viaRelay', `has "${more}", which is not among authorities`)
    const beyond = viaRelay.find((authority) => maker?.viaRelay.includes(authority) === false)
    if (beyond !== undefined) {
      throw kernelError('missing_grant', `A device can only grant authorities that it has through a relay, ` +
        `and it does not have "${beyond}".`, { authority: beyond })
    }
    return {
      name: choice.name ?? base?.name ?? null, authorities, viaRelay,
      expires: this.#end(choice.expires ?? base?.expires, caller),
      maxOfflineSeconds: choice.maxOfflineSeconds ?? base?.maxOfflineSeconds ?? USUAL_OFFLINE_SECONDS
    }
  }

  /** Creates the grant after the comparison of digits, and sends it to the cluster. Returns the id. */
  async confirm (
    attempt: string, digits: string, choice: Choice, caller: Caller, pairing = this.#parts.pairing
  ): Promise<string> {
    const { book, hear, nodes } = this.#parts
    const { device, deviceId, wish: base } = await pairing.confirm(attempt, digits)
    try {
      const { name, ...rest } = this.wish(choice, caller, base)
      const grant = this.#signed({
        deviceId, name: name ?? device.name, key: text(device.key), agreementKey: text(device.agreementKey),
        ...rest, by: this.#origin(caller).id
      })
      await this.#ctx.command('grantDevice', { grant: grant as never })
      book.merge([{ grant, revoked: null }])
      hear()
      const { authorities, viaRelay, expires } = grant
      this.#ctx.emit('DevicePaired', {
        deviceId, name: grant.name, authorities: [...authorities], viaRelay: [...viaRelay], expires,
        by: caller.id
      })
      pairing.done(attempt, { grant, nodes: await nodes() })
      return deviceId
    } catch (error) {
      pairing.again(attempt)
      throw error
    }
  }

  /** Revokes a device, on this node first and then in the cluster. Throws `device_not_found`. */
  async revoke (id: string, by: string) {
    const { book, hear } = this.#parts
    const ended = { id, revoked: true as const, admitted: this.#ctx.deps.cluster.admittedBy(id) }
    const grant = book.grant(id)
    if (grant === undefined) {
      if (book.revoked(id) !== undefined) return ended
      throw this.#ctx.error('device_not_found', `There is no device ${id}.`)
    }
    const { name, expires } = grant
    const at = new Date(this.#ctx.clock.now()).toISOString()
    const revoked = { deviceId: id, name, expires, by, at }
    // Revoke the device here even if the command fails; this node then publishes it in a later session.
    book.merge([{ grant: null, revoked }])
    this.#ctx.emit('DeviceRevoked', { deviceId: id, name, by })
    await this.#ctx.command('revokeDevice', { revoked })
    hear()
    return ended
  }

  /** Revokes the devices that were admitted at this node with a token that has since been revoked. */
  async #endWithTokens (): Promise<void> {
    const { deps: { identity, tokens }, log } = this.#ctx
    const own = text(identity.publicKey)
    const ended = new Set(tokens.list().filter(({ revoked }) => revoked).map(({ id }) => id))
    for (const { grant } of this.#parts.book.entries()) {
      if (grant?.nodeKey !== own || !ended.has(grant.by)) continue
      await this.revoke(grant.deviceId, grant.by).catch((err: unknown) => {
        log.debug({ err }, 'the revocation of a device with its token could not be stored in the cluster yet')
      })
    }
  }

  /** Throws `missing_grant` for authorities that the caller lacks; without a list it is all that it has. */
  signIn (asked: readonly string[] | undefined, opener: Caller): SignIn {
    const authorities = asked ?? [...opener.authorities].filter((one) => this.#isKnown(one)).sort()
    return { opener, wish: this.wish({ authorities }, opener) }
  }

  /** Confirms the device that has sent a sign-in code, in place of the operator. Never throws. */
  async admit (attempt: string, { opener, pairing }: SignIn & { pairing: Pairing }): Promise<void> {
    try {
      await this.confirm(attempt, pairing.view().device!.digits, {}, opener, pairing)
    } catch (err) {
      this.#ctx.log.warn({ err }, 'a browser could not be signed in')
      pairing.close()
    }
  }

  #isKnown (authority: string): boolean {
    return this.#ctx.deps.declarations.manifests.some((m) => Object.hasOwn(m.authorities ?? {}, authority))
  }

  /** The device that created the caller's token (admissions end with the device), and the token's expiry. */
  #origin ({ id }: Caller): { id: string, ends: string | null } {
    const tokens = new Map(this.#ctx.deps.tokens.list().map((one) => [one.id, one]))
    const own = tokens.get(id)
    let maker = id
    for (let one = own; one !== undefined; one = tokens.get(one.by)) maker = one.by
    return { id: isDeviceId(maker) ? maker : id, ends: own?.expires ?? null }
  }

  /** The expiry of a new grant, no later than that of the device or token that confirms it. */
  #end (asked: string | undefined, caller: Caller): string {
    const now = this.#ctx.clock.now()
    const origin = this.#origin(caller)
    const makerEnds = [this.#parts.book.grant(origin.id)?.expires, origin.ends ?? undefined]
      .filter((end) => end !== undefined).sort()[0]
    const usual = new Date(now + USUAL_DAYS * DAY_MS).toISOString()
    const unasked = makerEnds !== undefined && makerEnds < usual ? makerEnds : usual
    const expires = asked === undefined ? unasked : new Date(asked).toISOString()
    if (Date.parse(expires) <= now) throw badField('expires', `is ${expires}; it must be in the future`)
    if (Date.parse(expires) > now + LONGEST_MS) {
      throw badField('expires', `is ${expires}; the limit is ${LONGEST_MS / DAY_MS} days from now`)
    }
    if (makerEnds !== undefined && expires > makerEnds) {
      throw badField('expires', `is ${expires}, after the end of the granting credential (${makerEnds})`)
    }
    return expires
  }

  #signed (grant: Omit<Grant, 'created' | 'nodeKey' | 'nodeAgreementKey' | 'signature'>): Grant {
    const { clock, deps: { identity } } = this.#ctx
    const unsigned = {
      ...grant, created: new Date(clock.now()).toISOString(),
      nodeKey: text(identity.publicKey), nodeAgreementKey: text(identity.agreementKey)
    }
    return { ...unsigned, signature: text(identity.sign(GRANT, grantBytes(unsigned))) }
  }
}
