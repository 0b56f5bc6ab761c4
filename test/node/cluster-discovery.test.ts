import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import t from 'tap'
import { available, createLan } from '../tools/netns.js'
import { ELECTION_MS, HEARTBEAT_MS, quiet } from './cluster-kit.js'
import { ask } from './http.js'
import { folder, startNode, until, type TestNode } from './kit.js'

const live = async (node: TestNode): Promise<number> =>
  ((await ask(node, '/state')).json as { cluster: { liveNodes: number } }).cluster.liveNodes

t.test('machines with outdated addresses find each other by multicast DNS', {
  skip: available() ?? false
}, async (t) => {
  const lan = createLan(t, 2)
  const homes = [1, 2].map(() => join(folder(t), 'home'))
  const start = async (machine: number, port: number, args: readonly string[] = []): Promise<TestNode> =>
    await startNode(t, {
      home: homes[machine - 1]!, ready: false, before: lan.on(machine),
      args: ['--host', lan.address(machine), ...args],
      config: { ...quiet, name: `n${machine}`,
        cluster: { port, heartbeat_ms: HEARTBEAT_MS, election_timeout_ms: ELECTION_MS } }
    })
  for (const machine of [1, 2]) {
    const [command, ...rest] = [...lan.on(machine), 'ip', 'route', 'add', 'default', 'dev', 'e0']
    t.equal(spawnSync(command!, rest).status, 0, 'as every machine has: multicast follows the default route')
  }

  const one = await start(1, 52416)
  const { token } = (await ask(one, '/cluster/join-tokens', { body: {} })).json as { token: string }
  const two = await start(2, 52416, ['--join', token])
  const first = [one, two]
  await until('the two to see each other', async () =>
    (await Promise.all(first.map(live))).every((count) => count === 2))
  await Promise.all(first.map((node) => node.kill()))

  // Both nodes restart on new ports, so the addresses they have stored for each other no longer work.
  const again = await Promise.all([start(1, 52417), start(2, 52418)])
  await until('the two to see each other at their new ports', async () =>
    (await Promise.all(again.map(live))).every((count) => count === 2))
  const sessions = await Promise.all(again.map(async (node) =>
    ((await ask(node, '/state')).json as { sessionId: string }).sessionId))
  t.equal(new Set(sessions).size, 1, 'one cluster')
})
