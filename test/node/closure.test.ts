/**
 * Finds the authorities reachable from each set of authorities: every operation is tried at a real node, with
 * every credential found so far, until none is new. docs/operations/access.md has the expected table.
 */
import { readFileSync } from 'node:fs'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { gatherKnown } from '../../kernel/config/config-schemas.js'
import { definePlugin } from '../../kernel/index.js'
import { ownerOf } from '../../kernel/plugins/installation.js'
import { bundled } from '../../plugins/index.js'
import {
  admitsMember, ALL, changesSettings, fromElsewhere, getsBearer, joinWith, makesToken, mayDo, paired,
  pairsDevice, rotatesToken, signsIn, spends, startNode, switchesPlugins, withDevice, withToken,
  type ClosureNode, type Edge, type Holder
} from './closure-kit.js'
import { root, until } from './kit.js'

// Some thousand requests take minutes on a loaded machine.
t.setTimeout(480_000)

/** Settings that can be changed only in the file, not over HTTP. */
const fileOnly = gatherKnown(bundled.map(({ manifest }) => ownerOf(manifest, true))).leaves
  .filter(({ schema }) => schema['x-local'] === true).map(({ path }) => path.join('.'))

interface Reached { direct: Set<string>, relay: Set<string>, member: boolean, code: boolean }

/** A class of holders that can reach the same authorities. */
interface Known { kind: Holder['kind'], may: readonly string[], next: readonly string[] }

/**
 * Tries every operation once for each class of holder, to find all authorities that each initial holder can
 * reach. `making`: the operations whose result depends on the holder's device or its origin.
 */
function explorer (node: ClosureNode, making: readonly Edge[], others: readonly Edge[]) {
  const known = new Map<string, Known>()
  const tried = new Set<string>()
  // `line`: what the paired device from which this holder derives, if any, may do over a relay.
  const explore = async (holder: Holder, before?: readonly string[]): Promise<string> => {
    const { device, given, kind } = holder
    const may = await mayDo(holder)
    const line = device?.grant.viaRelay ?? before
    const bound = line === undefined || may.every((one) => line.includes(one)) ? '' : line.join()
    const alike = `${kind}|${may.join()}`
    const key = `${alike}|${device !== undefined}|${given !== undefined}|${bound}`
    if (known.has(key)) return key
    const next: string[] = []
    known.set(key, { kind, may, next })
    if (given !== undefined) return key
    const edges = [...making, ...tried.has(alike) ? [] : others]
    tried.add(alike)
    for (const edge of edges) {
      for (const one of await edge(holder, node)) next.push(await explore(one, line))
    }
    return key
  }
  return async (start: readonly Holder[]): Promise<Reached> => {
    const reached: Reached = { direct: new Set(), relay: new Set(), member: false, code: false }
    const keys: string[] = []
    for (const holder of start) keys.push(await explore(holder))
    for (const key of keys) {
      const { kind, may, next } = known.get(key)!
      keys.push(...next.filter((one) => !keys.includes(one)))
      if (kind === 'member' || kind === 'code') reached[kind] = true
      else for (const authority of may) reached[kind].add(authority)
    }
    return reached
  }
}

const words = (set: ReadonlySet<string>): string => set.size === ALL.length ? 'everything'
  : set.size === 0 ? 'nothing' : [...set].sort().join(', ')

/** The table in the documentation as pairs of initial holder and reachable authorities. */
function declaredTable (): [string, string][] {
  const page = readFileSync(join(root, 'docs/operations/access.md'), 'utf8')
  const [, section = ''] = page.split('\n## What a credential can become\n')
  return [...section.split('\n## ')[0]!.matchAll(/^\| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$/gm)].slice(2)
    .map(([, who, direct, relay, member]) => [who!, `${direct}; relay: ${relay}; admits: ${member}`])
}

const elsewhere = Object.values(networkInterfaces()).flatMap((list) => list ?? [])
  .find(({ internal, family }) => !internal && family === 'IPv4')?.address

/** The initial holders of each row of the table. */
async function starts (t: Test, node: ClosureNode): Promise<Map<string, Holder[]>> {
  const { operator, url } = node
  const token = async (...list: string[]): Promise<Holder[]> => [withToken(url, ((await operator.ask(
    'POST', '/v1/tokens', { label: 'x', authorities: list })).json as { token: string }).token)]
  const device = async (list: string[], viaRelay: string[]): Promise<[Holder, Holder]> => {
    await operator.ask('POST', '/v1/devices/pairing', { authorities: list, viaRelay })
    const made = await paired(node, async (body) => {
      await operator.ask('POST', '/v1/devices/pairing/confirm', body)
    })
    return [withDevice(node, made, false), withDevice(node, made, true)]
  }
  const devices = await device(['operator', 'read', 'invoke'], ['read'])
  const far = await device(['operator', 'read', 'invoke'], ['operator', 'read'])
  const invitation = await operator.ask('POST', '/cluster/join-tokens', { local: true })
  const join = await joinWith(t, node, (invitation.json as { token: string }).token)
  return new Map<string, Holder[]>([
    ['nobody, from another machine', elsewhere === undefined ? [] : [fromElsewhere(url, elsewhere)]],
    ['nobody, on this machine', [withToken(url, null)]],
    ...await Promise.all(ALL.map(async (one) => [`\`${one}\``, await token(one)] as [string, Holder[]])),
    ['`operator`, `read`, `invoke`', await token('operator', 'read', 'invoke')],
    ['`operator`, `cluster:write`', await token('operator', 'cluster:write')],
    ['`operator`, `plugin:manage`', await token('operator', 'plugin:manage')],
    ['`invoke`, `approve`', await token('invoke', 'approve')],
    ['all but `approve`', await token(...ALL.filter((one) => one !== 'approve'))],
    ['every authority', await token(...ALL)],
    ['the operator\'s token', [operator]],
    ['a device: `operator`, `read`, `invoke`; over a relay `read`', devices],
    ['the same device, over a relay only', [devices[1]]],
    ['a device: `operator`, `read`, `invoke`; over a relay `operator`, `read`, and only there', [far[1]]],
    ['a join token, or a member', join]
  ])
}

t.test('from each start only the authorities of the table are reachable', async (t) => {
  const node = await startNode(t)
  const making = [makesToken, rotatesToken, signsIn, pairsDevice, getsBearer, admitsMember(t)]
  const reach = explorer(node, making, [changesSettings(fileOnly), switchesPlugins])
  const declared = declaredTable()
  const begun = await starts(t, node)
  t.same(declared.map(([who]) => who), [...begun.keys()], 'each start has a row')
  for (const [who, expected] of declared) {
    if (begun.get(who)?.length === 0) continue
    const { code, direct, member, relay } = await reach(begun.get(who)!)
    t.equal(code, false, `${who}: names no code`)
    t.equal(`${words(direct)}; relay: ${words(relay)}; admits: ${member ? 'yes' : 'no'}`, expected, who)
  }
  const spenders: string[] = []
  for (const who of ['`invoke`', '`invoke`, `approve`', 'all but `approve`']) {
    if (await spends(begun.get(who)![0]!, node)) spenders.push(who)
  }
  t.same(spenders, ['`invoke`, `approve`'], 'money is spent by nobody without `approve`')
})

t.test('code is named in the file only; access without a token changes only with a restart', async (t) => {
  const node = await startNode(t)
  const { json } = await node.operator.ask('GET', '/config')
  const { revision } = json as { revision: string }
  t.ok(fileOnly.length > 0)
  for (const path of ['plugins.mcp.module', ...fileOnly]) {
    const answer = await node.operator.ask('PUT', '/config', { revision, set: { [path]: './x.js' } })
    t.match(answer, { status: 400, json: { error: { message: /svc\.yaml/ } } }, path)
  }
  const set = { 'access.local': ['approve'] }
  t.equal((await node.operator.ask('PUT', '/config', { revision, set })).status, 200)
  await node.stop()
  const again = await startNode(t, { home: node.home })
  t.same(await mayDo(withToken(again.url, null)), ['approve'])
})

t.test('a member has the authorities of whoever admitted it, including those of later plugins', async (t) => {
  const late = definePlugin({
    name: 'late', version: '1.0.0', kernel: '^1.0.0', summary: 'Comes later.',
    authorities: { late: 'Comes later.' },
    routes: { late: { method: 'GET', url: '/probe/late', summary: 's', authority: 'late', members: true } }
  }, () => ({ routes: { late: () => ({}) } }))
  const node = await startNode(t, { plugins: [late] })
  const off = await node.operator.ask('POST', '/v1/plugins/late', { enabled: false })
  t.match(off, { status: 200, json: { in_effect: true } })
  const made = (await node.operator.ask('POST', '/v1/tokens', { label: 'x', authorities: ALL })).json as
    { token: string, record: { id: string } }
  const admit = async (by: Holder): Promise<Holder> => {
    const { json } = await by.ask('POST', '/cluster/join-tokens', { local: true })
    return (await joinWith(t, node, (json as { token: string }).token))[0]!
  }
  const token = withToken(node.url, made.token)
  await token.ask('POST', '/v1/devices/pairing', { authorities: ALL, viaRelay: [] })
  const device = await paired(node, async (body) => {
    await token.ask('POST', '/v1/devices/pairing/confirm', body)
  })
  const [own, other] = [await admit(node.operator), await admit(withDevice(node, device, false))]
  await node.operator.ask('POST', '/v1/plugins/late', { enabled: true })
  await until('the plugin runs', async () => (await node.operator.ask('GET', '/probe/late')).status === 200)
  const of = [...ALL, 'late']
  t.same(await mayDo(own, of), of, 'the operator has admitted it')
  t.same(await mayDo(other, of), ALL, 'a device of a token has, with what there was')
  const refused = await token.ask('POST', '/cluster/join-tokens', { local: true })
  const lacking = { reason: 'missing_grant', details: { authority: 'late' } }
  t.match(refused, { status: 403, json: { error: lacking } })
  // Revoking the token returns the member that it admitted, which stays until it is removed.
  const { members } = (await node.operator.ask('GET', '/cluster/members')).json as
    { members: { installId: string, admitted: { by: string[], authorities?: string[] } | null }[] }
  const admitted = members.find((one) => one.admitted?.by.includes(made.record.id) === true)!
  t.same([...admitted.admitted!.authorities!].sort(), ALL)
  t.same(admitted.admitted!.by, [device.deviceId, made.record.id, 'operator'])
  t.match(await node.operator.ask('DELETE', `/v1/tokens/${made.record.id}`),
    { status: 200, json: { admitted: [{ installId: admitted.installId }] } })
  t.equal((await node.operator.ask('DELETE', `/cluster/members/${admitted.installId}`)).status, 200)
  await until('it is not counted any more', async () =>
    await mayDo(other).then((may) => may.length === 0, () => true))
})
