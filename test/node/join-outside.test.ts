import t from 'tap'
import { connect } from 'node:net'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import { quiet } from './cluster-kit.js'
import { freePorts } from './ports.js'
import { readJoinToken } from '../../plugins/cluster/identity/join-tokens.js'
import { ask } from './http.js'
import { folder, startNode, until, type TestNode } from './kit.js'

const outside = Object.values(networkInterfaces()).flat().find((i) => i?.family === 'IPv4' &&
  !i.internal)?.address

/** True if the port accepts connections. */
const listens = async (host: string, port: number): Promise<boolean> => await new Promise((resolve) => {
  const socket = connect(port, host, () => {
    socket.destroy()
    resolve(true)
  })
  socket.on('error', () => { resolve(false) })
})

interface MemberRow { name: string, live: boolean, addresses: string[] }
const rows = async (node: TestNode): Promise<MemberRow[]> =>
  ((await ask(node, '/cluster/members')).json as { members: MemberRow[] }).members

t.test('nodes of several machines without --host: members are let in, the API stays on loopback',
  { skip: outside === undefined ? 'this machine has only loopback' : false }, async (t) => {
    const [api, members, otherApi, otherMembers] = await freePorts(4)
    const config = (name: string, port: number): Record<string, unknown> =>
      ({ ...quiet, name, cluster: { discovery: false, port } })
    const home = join(folder(t), 'home')
    const start = async (): Promise<TestNode> => await startNode(t,
      { home, ready: false, config: config('first', members!), args: ['--port', String(api)] })
    let first = await start()
    const seedsOf = async (body: object): Promise<readonly string[]> => {
      const { token } = (await ask(first, '/cluster/join-tokens', { body })).json as { token: string }
      return readJoinToken(token, 0).seeds
    }
    t.strictSame(await seedsOf({ local: true }), [`127.0.0.1:${members}`])
    t.equal(await listens(outside!, members!), false, 'a node that is alone is not to be reached')

    t.ok((await seedsOf({})).includes(`${outside}:${members}`), 'a token names the addresses of this machine')
    t.equal(await listens(outside!, members!), true)
    t.equal(await listens(outside!, api!), false, 'clients are not let in from outside')
    await first.kill()
    first = await start()
    t.equal(await listens(outside!, members!), true, 'a token that is open holds after a restart')

    const { token } = (await ask(first, '/cluster/join-tokens', { body: {} })).json as { token: string }
    const second = await startNode(t, { ready: false, config: config('second', otherMembers!),
      args: ['--port', String(otherApi)], env: { SVC_JOIN: token } })
    await until('both to be there', async () => {
      const seen = [...await rows(first), ...await rows(second)]
      return seen.length === 4 && seen.every(({ live }) => live)
    })
    for (const node of [first, second]) {
      const known = (await rows(node)).map(({ name, addresses }) => [name, addresses[0]]).sort()
      t.strictSame(known, [['first', `${outside}:${members}`], ['second', `${outside}:${otherMembers}`]])
    }
    t.equal(await listens(outside!, otherApi!), false, 'nor are they at the one that joined')
    await first.kill()
    await second.kill()
  })
