/** Holders of credentials at a real node, and the operations that yield more credentials. */
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { request, type IncomingMessage } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { json } from 'node:stream/consumers'
import { createNode, type SvcNode } from '../../kernel/boot/node.js'
import { openNodeKey } from '../../kernel/boot/node-key.js'
import { dial } from '../../plugins/cluster/identity/tls.js'
import { CALLER_HEADER, writeCaller } from '../../kernel/http/forwarded.js'
import { authorities } from '../../kernel/plugins/kernel-manifest.js'
import { definePlugin, ListenerService, systemClock, type RouteDecl } from '../../kernel/index.js'
import { deviceKeysOf, pairDevice, type DeviceFile } from '../../plugins/devices/signing/device.js'
import { RequestSigner } from '../../plugins/devices/signing/signer.js'
import { duplexPair } from '../../kernel/test/duplex-pair.js'
import { bundled } from '../../plugins/index.js'
import { ask } from './http.js'
import { sleep, until } from './kit.js'
import type { Test } from 'tap'
import type { Listeners } from '../../kernel/api/services.js'

export const ALL = [authorities, ...bundled.map(({ manifest }) => manifest.authorities ?? {})]
  .flatMap(Object.keys).sort()

interface Answer { status: number, json: unknown }
type Ask = (method: string, path: string, body?: object) => Promise<Answer>

/**
 * The holder of a credential. `kind`: how the credential is presented. `given`: the holder's authorities, if
 * they are known without a request.
 */
export interface Holder {
  readonly kind: 'direct' | 'relay' | 'member' | 'code'
  readonly ask: Ask
  readonly given?: readonly string[]
  readonly device?: DeviceFile
}

const pathOf = (authority: string): string => `/probe/${authority.replace(':', '-')}`

/** A plugin with a route for each authority, and a capability with a cost. */
const probe = (hold: { listeners?: Listeners }) => definePlugin({
  name: 'probe', version: '1.0.0', kernel: '^1.0.0', summary: 'Shows what a caller may do.',
  consumes: { listeners: ListenerService },
  routes: Object.fromEntries([null, ...ALL].map((authority, i) => [`r${i}`, {
    method: 'GET', url: pathOf(authority ?? 'who'), summary: 's', authority, members: true
  } satisfies RouteDecl])),
  capabilities: {
    pay: {
      id: 'pay', version: '1.0.0', title: 'Pay', description: 'Costs.', io_mode: 'unary',
      input_schema: { type: 'object' }, output_schema: { type: 'object' }, annotations: { cost: '1 EUR' }
    }
  }
}, (ctx) => {
  hold.listeners = ctx.deps.listeners
  const routes = [null, ...ALL].map((_, i) => [`r${i}`,
    ({ caller }: { caller: { id: string } }) => ({ id: caller.id })])
  return { routes: Object.fromEntries(routes) as never, invoke: { pay: async () => ({}) } }
})

export interface ClosureNode {
  readonly home: string
  readonly url: string
  readonly installId: string
  readonly operator: Holder
  readonly listeners: Listeners
  stop (): Promise<void>
}

/** Starts a node with every plugin in this process. */
export async function startNode (
  t: Test, options: { home?: string, join?: string, plugins?: typeof bundled } = {}
): Promise<ClosureNode> {
  const home = options.home ?? mkdtempSync(join(tmpdir(), 'svc-closure-'))
  t.teardown(() => { rmSync(home, { recursive: true, force: true }) })
  const hold: { listeners?: Listeners } = {}
  const node: SvcNode = await createNode({
    home, env: {}, bundled: [...bundled, probe(hold), ...options.plugins ?? []],
    ...options.join === undefined ? {} : { join: options.join },
    flags: {
      'api.port': 0, 'cluster.port': 0, 'cluster.discovery': false, 'logging.level': 'fatal',
      'plugins.placement.autoplace': [], 'plugins.approvals.wait_seconds': 1
    }
  })
  t.teardown(async () => { await node.stop('test') })
  const { url } = await node.listen()
  const token = readFileSync(join(home, 'operator.token'), 'utf8').trim()
  const operator = withToken(url, token)
  const { nodeInstallId: installId } = (await operator.ask('GET', '/node/identity')).json as
    { nodeInstallId: string }
  return {
    home, url, installId, operator, listeners: hold.listeners!, stop: async () => { await node.stop('test') }
  }
}

export const withToken = (url: string, token: string | null): Holder => ({
  kind: 'direct',
  ask: async (method, path, body) =>
    await ask({ url }, path, { method, token, ...body === undefined ? {} : { body } })
})

/** Sends requests from another local address, as a client on another machine does. */
export const fromElsewhere = (url: string, localAddress: string): Holder => ({
  kind: 'direct',
  ask: async (method, path, body) => await sent(request(`${url}${path}`, {
    method, localAddress, headers: { 'content-type': 'application/json' }
  }), body)
})

async function sent (call: ReturnType<typeof request>, body?: object): Promise<Answer> {
  call.end(body === undefined ? undefined : JSON.stringify(body))
  const [response] = await once(call, 'response') as [IncomingMessage]
  return { status: response.statusCode ?? 0, json: await json(response).catch(() => undefined) }
}

/** The holder of a device's key, connected directly or through a relay. */
export function withDevice ({ url, listeners }: ClosureNode, device: DeviceFile, relayed: boolean): Holder {
  const signer = new RequestSigner({
    keys: deviceKeysOf(device), now: Date.now, seen: undefined,
    fingerprints: new Set(device.nodes.map(({ fingerprint }) => fingerprint))
  })
  const once = async (method: string, path: string, body?: object): Promise<Answer> => {
    const text = body === undefined ? undefined : new TextEncoder().encode(JSON.stringify(body))
    const authorization = await signer.authorization(method, path, text)
    const headers = { authorization, ...body === undefined ? {} : { 'content-type': 'application/json' } }
    if (!relayed) return await sent(request(`${url}${path}`, { method, headers, agent: false }), body)
    const [here, there] = duplexPair()
    listeners.accept(there, { device: device.deviceId })
    const call = request(`http://relay${path}`, { method, headers, createConnection: () => here })
    const answer = await sent(call, body)
    here.destroy()
    return answer
  }
  return {
    kind: relayed ? 'relay' : 'direct', device,
    ask: async (method, path, body) => {
      const first = await once(method, path, body)
      const { error } = (first.json ?? {}) as { error?: { details: unknown } }
      const again = first.status === 401 && await signer.correct(error?.details)
      return again ? await once(method, path, body) : first
    }
  }
}

/** A member node that forwards requests in the name of any caller. */
async function asMember (own: ClosureNode, of: ClosureNode): Promise<Holder> {
  const key = await openNodeKey(own.home, own.installId)
  const { members } = (await of.operator.ask('GET', '/cluster/members')).json as
    { members: { installId: string, addresses: string[] }[] }
  const port = Number(members.find((one) => one.installId === of.installId)!.addresses[0]!.split(':').at(-1))
  const caller = writeCaller({ id: 'operator', mode: 'direct', authorities: new Set([...ALL, 'late']) })
  return {
    kind: 'member',
    ask: async (method, path, body) => {
      const socket = await dial({
        key, host: '127.0.0.1', port, expect: () => true, timeoutMs: 5000, clock: systemClock
      })
      const answer = await sent(request({
        createConnection: () => socket, method, path: `/api${path}`,
        headers: { host: 'svc-members', [CALLER_HEADER]: caller, 'content-type': 'application/json' }
      }), body)
      socket.destroy()
      return answer
    }
  }
}

/** A holder's authorities, found by requesting each one's probe route. */
export async function mayDo ({ ask, given }: Holder, of = ALL): Promise<string[]> {
  if (given !== undefined) return [...given]
  const answers = await Promise.all(of.map(async (authority) => await ask('GET', pathOf(authority))))
  return of.filter((_, i) => answers[i]!.status === 200)
}

/** Performs an operation with the most authorities that the node accepts; resolves to the new holders. */
export type Edge = (holder: Holder, node: ClosureNode) => Promise<Holder[]>

/** Filters `values` to those that the node accepts when each is requested alone. */
async function taken (values: readonly string[], ask: (value: string) => Promise<Answer>): Promise<string[]> {
  const found: string[] = []
  for (const value of values) if ((await ask(value)).status === 200) found.push(value)
  return found
}

export const makesToken: Edge = async ({ ask }, { url }) => {
  const make = async (list: string[], local = false): Promise<Answer> =>
    await ask('POST', '/v1/tokens', { label: 'x', authorities: list, local })
  const given = await taken(ALL, async (authority) => await make([authority], true))
  if (given.length === 0) return []
  return [withToken(url, ((await make(given)).json as { token: string }).token)]
}

/** Rotates keys of the operator; ends all but the last, since a cluster has room for 200. */
export const rotatesToken: Edge = async ({ ask }, { operator, url }) => {
  const end = async (id: string): Promise<unknown> => await operator.ask('DELETE', `/v1/tokens/${id}`)
  const rotate = async (authorities: readonly string[]) => {
    const { record } = (await operator.ask('POST', '/v1/tokens', { label: 'x', authorities })).json as
      { record: { id: string } }
    const { status, json } = await ask('POST', `/v1/tokens/${record.id}/rotate`, {})
    await end(record.id)
    return status === 200 ? json as { token: string, record: { id: string } } : undefined
  }
  const given: string[] = []
  for (const authority of ALL) {
    const made = await rotate([authority])
    if (made === undefined) continue
    given.push(authority)
    await end(made.record.id)
  }
  const last = given.length === 0 ? undefined : await rotate(given)
  return last === undefined ? [] : [withToken(url, last.token)]
}

const PAIRING = '/v1/devices/pairing'

export const pairsDevice: Edge = async (holder, node) => {
  const open = async (body: object): Promise<Answer> => {
    await node.operator.ask('DELETE', PAIRING)
    return await holder.ask('POST', PAIRING, body)
  }
  const given = await taken(ALL, async (one) => await open({ authorities: [one], viaRelay: [] }))
  if (given.length === 0) return []
  const relayed = await taken(given, async (one) => await open({ authorities: given, viaRelay: [one] }))
  const opened = await open({ authorities: given, viaRelay: relayed })
  if (opened.status !== 200) throw new Error('the pairing cannot be opened')
  const own = await paired(node, async (body) => {
    // Tries to grant more than the pairing was opened for; if refused, grants what it was opened for.
    const more = { ...body, authorities: ALL, viaRelay: ALL }
    const greedy = await holder.ask('POST', `${PAIRING}/confirm`, more)
    if (greedy.status !== 200) await holder.ask('POST', `${PAIRING}/confirm`, body)
  })
  // Tries to confirm a pairing that the operator opened with every authority.
  await node.operator.ask('POST', PAIRING, { authorities: ALL, viaRelay: ALL })
  const other = await paired(node, async (body) => {
    const { status } = await holder.ask('POST', `${PAIRING}/confirm`, body)
    if (status !== 200) await node.operator.ask('POST', `${PAIRING}/refuse`, { attempt: body.attempt })
  }).catch(() => undefined)
  return [own, ...other === undefined ? [] : [other]]
    .flatMap((device) => [withDevice(node, device, false), withDevice(node, device, true)])
}

/** Signs in with codes: as a device, and for a token. */
export const signsIn: Edge = async ({ ask }, node) => {
  const { ask: anyone } = withToken(node.url, null)
  const code = async (list: string[]): Promise<Answer> =>
    await ask('POST', '/v1/devices/sign-in', { authorities: list })
  const given = await taken(ALL, async (one) => await code([one]))
  if (given.length === 0) return []
  const [one, two] = [await code(given), await code(given)]
    .map(({ json: said }) => (said as { code: string }).code)
  const { json: said } = await anyone('POST', '/v1/devices/sign-in/token', { code: one })
  const device = await pairDevice({
    url: node.url, name: 'x', code: two!, compare: async () => true, pause: sleep,
    ask: async <T>(path: string, body?: object) =>
      (await anyone(body === undefined ? 'GET' : 'POST', path, body)).json as T
  })
  return [withToken(node.url, (said as { token: string }).token),
    withDevice(node, device, false), withDevice(node, device, true)]
}

/** Pairs a device in an open window; `confirm` plays the confirmation once the device waits. */
export async function paired (
  { url, operator }: ClosureNode, confirm: (body: { attempt: string, digits: string }) => Promise<void>
): Promise<DeviceFile> {
  const { ask } = withToken(url, null)
  let confirmed: Promise<void> | undefined
  const device = await pairDevice({
    url, name: 'x', compare: async () => true,
    ask: async <T>(path: string, body?: object) => {
      const answer = await ask(body === undefined ? 'GET' : 'POST', path, body)
      if (answer.status !== 200) throw new Error(JSON.stringify(answer.json))
      return answer.json as T
    },
    pause: async () => {
      const { device } = (await operator.ask('GET', PAIRING)).json as
        { device: { attempt: string, digits: string } | null }
      if (device !== null) confirmed ??= confirm({ attempt: device.attempt, digits: device.digits })
      await sleep(10)
    }
  })
  await confirmed
  return device
}

/** Gets a device's short-lived bearer, even through a relay, and presents it directly. */
export const getsBearer: Edge = async ({ ask, device }, { url }) => {
  if (device === undefined) return []
  const { status, json: said } = await ask('POST', '/v1/devices/session', {})
  return status === 200 ? [withToken(url, (said as { token: string }).token)] : []
}

/** Changes settings that widen access; each accepted change adds the resulting holders. */
export const changesSettings = (fileOnly: readonly string[]): Edge => async ({ ask }, { operator }) => {
  let { revision } = (await operator.ask('GET', '/config')).json as { revision: string }
  const set = async (path: string, value: unknown, by = ask): Promise<Answer> => {
    const answer = await by('PUT', '/config', { revision, set: { [path]: value } })
    if (answer.status === 200) revision = (answer.json as { revision: string }).revision
    return answer
  }
  await set('access.local', [], operator.ask)
  const local = await taken(ALL, async (authority) => {
    const answer = await set('access.local', [authority])
    if (answer.status === 200) await set('access.local', [], operator.ask)
    return answer
  })
  await set('access.local', null, operator.ask)
  const found: Holder[] = [{ kind: 'direct', ask, given: local }]
  // A caller that controls an allowed origin, host name or proxy gets the access without a token.
  for (const [path, value] of [['api.allowed_origins', ['https://x.example']], ['api.allowed_hosts', ['x']],
    ['api.trust_proxy', ['192.0.2.1']]] as const) {
    if ((await set(path, value)).status !== 200) continue
    found.push({ kind: 'direct', ask, given: ['invoke', 'read'] })
    await set(path, null, operator.ask)
  }
  for (const path of ['plugins.mcp.module', ...fileOnly]) {
    if ((await set(path, './x.js')).status === 200) found.push({ kind: 'code', ask, given: ALL })
  }
  return found
}

/** Switches a plugin off and on, which must yield no credential. */
export const switchesPlugins: Edge = async ({ ask }) => {
  for (const enabled of [false, true]) await ask('POST', '/v1/plugins/mcp', { enabled })
  return []
}

/** Creates a join token, with which the attacker's node joins, forwards requests and pairs a device. */
export function admitsMember (t: Test): Edge {
  let met: Promise<Holder[]> | undefined
  return async ({ ask }, node) => {
    const { status, json: said } = await ask('POST', '/cluster/join-tokens', { local: true })
    if (status !== 200) return []
    return await (met ??= joinWith(t, node, (said as { token: string }).token))
  }
}

/** Joins the cluster with a join token, as an attacker's node. */
export async function joinWith (t: Test, node: ClosureNode, token: string): Promise<Holder[]> {
  const own = await startNode(t, { join: token })
  const member = await asMember(own, node)
  await until('the member to count', async () => (await member.ask('GET', '/probe/who')).status === 200)
  await own.operator.ask('POST', PAIRING, { authorities: ALL, viaRelay: ALL })
  const device = await paired(own, async (body) => {
    await own.operator.ask('POST', `${PAIRING}/confirm`, body)
  })
  const [direct, relayed] = [withDevice(node, device, false), withDevice(node, device, true)]
  await until('the device to be known', async () => (await direct.ask('GET', '/probe/who')).status === 200)
  return [member, direct, relayed]
}

/** Whether a holder can get a call with a cost accepted, by setting its own budget and approving the call. */
export async function spends ({ ask }: Holder, { operator }: ClosureNode): Promise<boolean> {
  const { json: who } = await ask('GET', '/probe/who')
  await ask('PUT', `/v1/approvals/budgets/${(who as { id: string }).id}`, { per_day: '9 EUR' })
  const { revisions } = (await operator.ask('GET', '/v1/capabilities')).json as
    { revisions: Record<string, string> }
  const call = ask('POST', '/v1/capabilities/call', {
    capability_id: 'pay', version: '1.0.0', descriptor_revision: revisions['pay@1.0.0'], payload: {}
  })
  return (await call).status === 200
}
