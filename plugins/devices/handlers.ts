import { kernelError, type Caller, type RouteRequest } from '../../kernel/index.js'
import { SIGNATURE_SCHEME, type Grant, type KnownNode, type NodeHalf } from './signing/protocol.js'
import { BEARER_SECONDS, type Bearers } from './bearers.js'
import { Deciding } from './deciding.js'
import type { DeviceStore } from './store.js'
import type { DeviceView } from './cli/describe.js'
import type { Entry, Revocation } from './grants.js'
import type { DevicesContext } from './manifest.js'
import type { DeviceNotes } from './notes.js'
import type { Pairing, WindowView } from './pairing.js'
import type { routes } from './routes.js'
import type { SignIns } from './sign-in.js'
import type { DeviceValidity } from './validity.js'

/** Lifetime of the token of a page that keeps no keys, in ms. */
const PAGE_MS = 43_200_000

export interface Parts {
  bearers: Bearers
  book: DeviceStore
  notes: DeviceNotes
  pairing: Pairing
  signIns: SignIns
  standing: DeviceValidity
  hear: () => void
}

type Request<K extends keyof typeof routes> = RouteRequest<(typeof routes)[K]>
const bytes = (base64url: string): Buffer => Buffer.from(base64url, 'base64url')
const text = (raw: Uint8Array): string => Buffer.from(raw).toString('base64url')

export function createHandlers (ctx: DevicesContext, parts: Parts) {
  const { bearers, book, pairing } = parts
  const views = createViews(ctx, parts)
  const deciding = new Deciding(ctx, { ...parts, nodes: async () => await knownNodes(ctx) })
  const ownId = (callerId: string): string => deviceOf(ctx, book, callerId)
  return {
    list: () => ({ devices: views.all() }),
    show: ({ params: { id } }: Request<'show'>) => views.one(id),
    revoke: async ({ params: { id }, caller }: Request<'revoke'>) => await deciding.revoke(id, caller.id),
    leave: async ({ caller }: Request<'leave'>) => await deciding.revoke(ownId(caller.id), caller.id),
    self: async ({ caller }: Request<'self'>) => {
      const grant = book.grant(ownId(caller.id))
      return { grant, nodeId: ctx.node.nodeId, nodes: await knownNodes(ctx) }
    },
    session: ({ caller, headers }: Request<'session'>) => {
      const signed =
        (headers['authorization'] ?? '').toLowerCase().startsWith(`${SIGNATURE_SCHEME.toLowerCase()} `)
      const deviceId = ownId(caller.id)
      if (!signed) {
        throw kernelError('unauthenticated', 'A bearer requires a request that a paired device has signed.')
      }
      const token = bearers.issue(deviceId, caller.mode === 'relay')
      return { token, expiresInSeconds: BEARER_SECONDS, nodeId: ctx.node.nodeId }
    },
    open: ({ body, caller }: Request<'open'>) => {
      const view = pairing.open({ ...deciding.wish(body, caller), by: caller.id })
      ctx.emit('DevicePairingOpened', { by: caller.id, ends: view.ends! })
      return shown(view)
    },
    view: () => shown(pairing.view()),
    close: () => {
      pairing.close()
      return shown(pairing.view())
    },
    confirm: async ({ body: { attempt, digits, ...choice }, caller }: Request<'confirm'>) =>
      views.one(await deciding.confirm(attempt, digits, choice, caller)),
    refuse: ({ body: { attempt }, caller }: Request<'refuse'>) => {
      const name = pairing.refuse(attempt)
      if (name === undefined) throw ctx.error('pairing_closed', 'No device is waiting for that answer.')
      ctx.emit('DeviceRefused', { name, by: caller.id })
      return shown(pairing.view())
    },
    ...createPairingHandlers(ctx, parts, deciding)
  }
}

/** The routes of devices that are not paired yet, and of sign-in codes. */
function createPairingHandlers (ctx: DevicesContext, { pairing, signIns }: Parts, deciding: Deciding) {
  const pairingOf = (attempt: string): Pairing => signIns.of(attempt)?.pairing ?? pairing
  return {
    signIn: async ({ body: { authorities }, caller }: Request<'signIn'>) => {
      const own = (await identitiesOf(ctx))[ctx.node.nodeId]
      return { ...signIns.issue(deciding.signIn(authorities, caller)), url: own?.apiUrl ?? null }
    },
    signInToken: async ({ body: { code }, caller, remoteAddress }: Request<'signInToken'>) => {
      refuseRelayed(ctx, caller)
      const { opener, wish: { authorities, expires } } = signIns.spend(code)
      const end = new Date(Math.min(ctx.clock.now() + PAGE_MS, Date.parse(expires))).toISOString()
      const { token, record } = await ctx.deps.tokens.create(
        { label: `page at ${remoteAddress}`, authorities: [...authorities], expiresAt: end, by: opener })
      return { token, expires: record.expires! }
    },
    begin: ({ body: { code, commit }, caller, remoteAddress }: Request<'begin'>) => {
      refuseRelayed(ctx, caller)
      const { attempt, node } = code === undefined
        ? pairing.begin(bytes(commit), remoteAddress)
        : signIns.begin(code, bytes(commit), remoteAddress)
      return { attempt, node: halfOf(node), nodeId: ctx.node.nodeId, name: ctx.node.name }
    },
    reveal: ({ params: { attempt }, body, caller }: Request<'reveal'>) => {
      refuseRelayed(ctx, caller)
      const { name, proof } = body
      const device = {
        name, key: bytes(body.key), agreementKey: bytes(body.agreementKey), ephemeral: bytes(body.ephemeral),
        nonce: bytes(body.nonce)
      }
      const signature = text(pairingOf(attempt).reveal(attempt, device, bytes(proof)))
      const signIn = signIns.of(attempt)
      if (signIn !== undefined) void deciding.admit(attempt, signIn)
      return { signature }
    },
    withdraw: ({ params: { attempt } }: Request<'withdraw'>) => {
      const name = pairingOf(attempt).refuse(attempt)
      if (name === undefined) throw ctx.error('pairing_closed', 'No device is waiting for an answer there.')
      ctx.emit('DeviceRefused', { name, by: 'device' })
      return {}
    },
    outcome: ({ params: { attempt } }: Request<'outcome'>) => {
      const { state, answer } = pairingOf(attempt).outcome(attempt)
      return { state, answer: answer?.text ?? null, mac: answer?.mac ?? null }
    }
  }
}

const halfOf = ({ agreementKey, ephemeral, key, nonce }: NodeHalf): Record<keyof NodeHalf, string> =>
  ({ key: text(key), agreementKey: text(agreementKey), ephemeral: text(ephemeral), nonce: text(nonce) })

/** Throws `pairing_failed` for a caller through a relay, which must not admit devices. */
function refuseRelayed (ctx: DevicesContext, { mode }: Caller): void {
  if (mode !== 'relay') return
  throw ctx.error('pairing_failed', 'A device must be paired over a direct connection, not over a relay.')
}

function shown ({ open, ends, triesLeft, wish, device }: WindowView): object {
  return {
    open, ends, triesLeft, authorities: wish?.authorities ?? null, viaRelay: wish?.viaRelay ?? null,
    expires: wish?.expires ?? null, device
  }
}

/** The caller's device id. Throws `device_not_found` for a caller that is not a paired device. */
function deviceOf (ctx: DevicesContext, book: DeviceStore, callerId: string): string {
  if (book.grant(callerId) !== undefined) return callerId
  throw ctx.error('device_not_found', 'Only a paired device can call this, for itself.')
}

type Identities = Record<string, { nodeInstallId: string, apiUrl: string | null } | undefined>

async function identitiesOf ({ deps: { state } }: DevicesContext): Promise<Identities> {
  return (await state.read() as { nodeIdentities: Identities }).nodeIdentities
}

async function knownNodes (ctx: DevicesContext): Promise<KnownNode[]> {
  const { cluster, identity } = ctx.deps
  const fingerprints = identity.fingerprints()
  // Prefer the URL in each node's state, because a link may have opened before the node knew its URL.
  const urls = new Map(Object.values(await identitiesOf(ctx)).map((one) => [one?.nodeInstallId, one?.apiUrl]))
  return cluster.nodes().flatMap(({ installId, name, apiUrl }) => {
    const fingerprint = fingerprints.get(installId)
    const url = urls.get(installId) ?? apiUrl
    return fingerprint === undefined ? [] : [{ installId, name, url, fingerprint }]
  })
}

function createViews (ctx: DevicesContext, { book, notes, standing }: Parts) {
  /** The last day on which each device sent a request to any node of the cluster. */
  const lastDays = (): Map<string, string> => {
    const days = new Map<string, string>()
    for (const { key, value } of ctx.sections.deviceUse.entries()) {
      if (value > (days.get(key) ?? '')) days.set(key, value)
    }
    return days
  }
  const ofGrant = (grant: Grant): Omit<DeviceView, 'lastUsedDay'> => {
    const { deviceId, name, viaRelay, created, expires, maxOfflineSeconds, by } = grant
    const found = standing.of(deviceId)
    const { authorities } = typeof found === 'string' ? grant : found
    return {
      deviceId, name, authorities: [...authorities], viaRelay: [...viaRelay], created, expires,
      maxOfflineSeconds, by, state: typeof found !== 'string' || found === 'unknown' ? 'active' : found
    }
  }
  const ofRevoked = ({ deviceId, name, expires, by }: Revocation): Omit<DeviceView, 'lastUsedDay'> => ({
    deviceId, name, authorities: [], viaRelay: [], created: null, expires, maxOfflineSeconds: null, by,
    state: 'revoked'
  })
  const view = ({ grant, revoked }: Entry, days: ReadonlyMap<string, string>): DeviceView => {
    const shown = revoked === null ? ofGrant(grant!) : ofRevoked(revoked)
    const [own, others] = [notes.usedDay(shown.deviceId), days.get(shown.deviceId) ?? null]
    return { ...shown, lastUsedDay: (own ?? '') > (others ?? '') ? own : others }
  }
  return {
    all (): DeviceView[] {
      const days = lastDays()
      return book.entries().map((entry) => view(entry, days))
        .sort((a, b) => a.name < b.name ? -1 : a.name > b.name ? 1 : 0)
    },
    one (id: string): DeviceView {
      const entry = book.entry(id)
      if (entry === undefined) throw ctx.error('device_not_found', `There is no device ${id}.`)
      return view(entry, lastDays())
    }
  }
}
