import t, { type Test } from 'tap'
import { join } from 'node:path'
import { chaosProxy } from '../tools/chaosproxy.js'
import { quiet, skewed, startCluster, type Member } from './cluster-kit.js'
import { freePorts } from './ports.js'
import { ask, refusal } from './http.js'
import { cli, figure, folder, run, sleep, startNode, until, writeConfig } from './kit.js'
import { hardKill } from './proc.js'

interface MemberRow { installId: string, name: string, live: boolean, self: boolean }
const rows = async (m: Member): Promise<MemberRow[]> =>
  ((await m.ask('/cluster/members'))?.json as { members: MemberRow[] }).members

interface Attempt { status: number | string, stderr: string }

/** Outcome of `svc up --join` in a fresh home. */
async function attempt (t: Test, token: string, env: Record<string, string> = {}): Promise<Attempt> {
  const home = join(folder(t), 'home')
  writeConfig(home, { ...quiet, cluster: { discovery: false } })
  const child = run(process.execPath, [cli, 'up', '--home', home, '--port', '0', '--join', token],
    { env: { HOME: home, ...env } })
  t.teardown(() => { hardKill(child.pid) })
  const patience = new AbortController()
  const status = await Promise.race([child.ended, sleep(20_000, patience.signal).then(() => 'it runs on')])
  patience.abort()
  hardKill(child.pid)
  return { status, stderr: child.stderr() }
}

const HOUR_MS = 3_600_000

t.test('T-A16: join tokens', async (t) => {
  // The inviter advertises its proxy, which can be redirected to a node with a key other than the token's.
  const cluster = await startCluster(t, { nodes: 2, config: quiet, proxied: true })
  const [inviter, second] = cluster.members
  // A link is measured over a separate connection a few seconds after it opens; that must be over before the
  // test counts connections.
  await until('the link to have been measured', async () => {
    const states = await Promise.all(cluster.members.map((m) => m.state()))
    const edges = states.flatMap((s) => Object.values(s?.topology.connections ?? {}).flatMap((to) =>
      Object.values(to).flat())) as { bytesPerSecond: number | null }[]
    return edges.some(({ bytesPerSecond }) => bytesPerSecond !== null)
  })
  const fresh = async (): Promise<string> =>
    ((await cluster.joinToken(inviter!)).json as { token: string }).token
  const refused = (what: string, { status, stderr }: Attempt, why: RegExp): void => {
    t.ok(typeof status === 'number' && status > 0, `${what}: refused (${status})`)
    t.match(stderr, why, what)
    t.notMatch(stderr, /\n\s+at /, `${what}: without a stack`)
  }
  /** Number of connections to the inviter's proxy while `act` ran. */
  const sent = async (act: () => Promise<void>): Promise<number> => {
    const before = inviter!.proxy!.seen.connections
    await act()
    return inviter!.proxy!.seen.connections - before
  }

  await t.test('no token, and a mistyped one', async (t) => {
    const token = await fresh()
    const slip = token.replace(/.(?=_[0-9a-f]+$)/, (letter) => letter === 'A' ? 'B' : 'A')
    const connections = await sent(async () => {
      refused('a slip', await attempt(t, slip), /token/)
      refused('nonsense', await attempt(t, 'svcjoin1_nonsense_00000000'), /token/)
    })
    t.equal(connections, 0, 'nobody is even dialled')
  })

  await t.test('expired', async (t) => {
    const token = await fresh()
    const connections = await sent(async () => {
      refused('expired', await attempt(t, token, skewed(t, HOUR_MS).env), /expired/)
    })
    t.equal(connections, 0, 'nobody is even dialled')
  })

  await t.test('expired by the clock of the inviter', async (t) => {
    const clock = skewed(t, 0)
    const [port] = await freePorts(1)
    const lone = await startNode(t, { env: clock.env, args: ['--port', String(port)],
      config: { ...quiet, cluster: { discovery: false, port: 0 } } })
    const { token } = (await ask(lone, '/cluster/join-tokens', { body: { local: true } })).json as
      { token: string }
    clock.set(HOUR_MS)
    await until('its clock to jump', async () => {
      const { expires } = (await ask(lone, '/cluster/join-tokens', { body: { local: true } })).json as
        { expires: string }
      return Date.parse(expires) > Date.now() + HOUR_MS
    })
    refused('expired there', await attempt(t, token), /expired|join_refused|refused/)
    await lone.kill()
  })

  await t.test('used', async (t) => {
    const token = await fresh()
    const home = join(folder(t), 'home')
    const third = await startNode(t, { home, ready: false, args: ['--join', token],
      config: { ...quiet, name: 'third', cluster: { discovery: false, port: 0 } } })
    await until('three members', async () => (await rows(second!)).length === 3)
    refused('used', await attempt(t, token), /used|refused/)
    t.equal((await rows(inviter!)).length, 3, 'nobody came in by it again')
    await third.kill()
  })

  await t.test('another key answers at the address', async (t) => {
    const [port] = await freePorts(1)
    const impostor = await startNode(t, { config: { ...quiet, cluster: { discovery: false, port } } })
    await ask(impostor, '/cluster/join-tokens', { body: { local: true } })
    const token = await fresh()
    const before = inviter!.proxy!.seen.down
    inviter!.proxy!.retarget({ host: '127.0.0.1', port: port! })
    refused('another key', await attempt(t, token), /key/)
    t.ok(inviter!.proxy!.seen.down > before, 'it spoke with the impostor')
    const list = (await ask(impostor, '/cluster/members')).json as { members: MemberRow[] }
    t.equal(list.members.length, 1, 'and gave it nothing')
    inviter!.proxy!.retarget({ host: '127.0.0.1', port: memberPort(inviter!) })
    await impostor.kill()
    const home = join(folder(t), 'home')
    const fourth = await startNode(t, { home, ready: false, args: ['--join', token],
      config: { ...quiet, name: 'fourth', cluster: { discovery: false, port: 0 } } })
    await until('the token to be good at the right address', async () =>
      (await rows(inviter!)).some(({ name, live }) => name === 'fourth' && live))
    await fourth.kill()
  })

  await t.test('a member that was removed', async (t) => {
    const row = (await rows(inviter!)).find(({ name }) => name === second!.name)!
    const own = (await rows(inviter!)).find(({ self }) => self)!
    const self = await ask(inviter!.node, `/cluster/members/${own.installId}`, { method: 'DELETE' })
    t.match([self.status, refusal(self)?.reason], [409, 'member_self'])
    const unknown = await ask(inviter!.node, '/cluster/members/nobody', { method: 'DELETE' })
    t.match([unknown.status, refusal(unknown)?.reason], [404, 'node_not_found'])
    const removed = await ask(inviter!.node, `/cluster/members/${row.installId}`, { method: 'DELETE' })
    t.match([removed.status, removed.json], [200, { installId: row.installId, removed: true }], removed.text)
    await until('it to be gone', async () =>
      (await inviter!.state())?.cluster.liveNodes === 1 &&
      !(await rows(inviter!)).some(({ installId }) => installId === row.installId))
    await second!.kill()
    await second!.start()
    const tries = inviter!.proxy!.seen.connections
    await until('it to have tried again', () => inviter!.proxy!.seen.connections > tries ||
      inviter!.proxy!.open === 0, { seconds: 10 })
    t.notOk((await rows(inviter!)).some(({ installId }) => installId === row.installId), 'it stays out')
    t.equal((await inviter!.state())?.cluster.liveNodes, 1)
    t.notOk((await inviter!.state())?.topology.nodes.includes(second!.node.nodeId))
  })
  figure(t, 'T-A16', t.passing(), {})
})

const memberPort = (m: Member): number => (m.config()['cluster'] as { port: number }).port

t.test('joining at an address without a node', async (t) => {
  const proxy = await chaosProxy({ target: { host: '127.0.0.1', port: 1 } })
  t.teardown(() => proxy.close())
  const { status, stderr } = await attempt(t, proxy.address)
  t.equal(status, 5, 'an address alone is for members')
  t.match(stderr, /svc join-token/)
})
