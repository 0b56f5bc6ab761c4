import t, { type Test } from 'tap'
import { cpSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { ask } from './http.js'
import { HEARTBEAT_MS, quiet, sameState, SILENCE_MS, startCluster, type Member } from './cluster-kit.js'
import { cli, folder, run, sleep, svc, until, writeConfig, type Child } from './kit.js'
import { hardKill } from './proc.js'

interface Check { name: string, result: string, message: string, remedy: string | null, code?: string }

/** Runs `svc doctor` on a node; resolves to the checks that are not `ok`. */
async function doctor ({ home, node }: Member): Promise<Check[]> {
  const args = ['doctor', '--json', '--home', home, '--url', node.url]
  const { stdout } = await svc(args, { env: { HOME: home } })
  return (JSON.parse(stdout) as { checks: Check[] }).checks.filter(({ result }) => result !== 'ok')
}

/** Waits until `svc doctor` on one node reports this code for at least one of the members `of`. */
const finds = async (on: Member, code: string, ...of: Member[]): Promise<Check> => await until(
  `doctor on ${on.name}: ${code} of ${of.map(({ name }) => name).join(' or ')}`,
  async () => (await doctor(on)).find((check) =>
    check.code === code && of.some(({ name }) => check.name === `health of ${name}`)))

function up (t: Test, home: string, ...args: string[]): Child {
  const child = run(process.execPath, [cli, 'up', '--json', '--home', home, ...args], { env: { HOME: home } })
  t.teardown(() => { hardKill(child.pid) })
  return child
}

t.test('mistakes of operators', async (t) => {
  const cluster = await startCluster(t, { config: quiet, heartbeatMs: HEARTBEAT_MS })
  const before = await cluster.agreed()
  const [n1, n2, n3] = cluster.members as [Member, Member, Member]
  const events = async (): Promise<number> => (await n1.state())!['lastEventAppliedIdx'] as number

  await t.test('a copied home starts beside its original', async (t) => {
    const home = join(folder(t), 'home')
    cpSync(n2.home, home, { recursive: true, filter: (path) => !path.includes('/run') })
    writeConfig(home, n2.config({ port: 0 }))
    const known = await events()
    const copy = up(t, home, '--port', '0')
    t.equal(await copy.ended, 5)
    t.match(copy.stderr(), /A process at 127\.0\.0\.1:\d+ has the key of this node.*svc join-token/)
    const [, port] = /this one is at 127\.0\.0\.1:(\d+)/.exec(copy.stderr())!
    // The copied node calls both others and stops at the first answer, so either one may report the copy.
    const found = await finds(n1, 'node_copied', n1, n3)
    t.match(found, { result: 'fail', remedy: /copied home.*svc join-token/,
      message: new RegExp(`n2 is linked at \\S+:\\d+; another process .* is at 127\\.0\\.0\\.1:${port}\\.`) })
    t.match(await finds(n2, 'node_copied', n1, n3), { result: 'fail' }, 'also where its original is asked')
    await sleep(SILENCE_MS)
    const after = await cluster.agreed()
    t.equal(after.sessionId, before.sessionId, 'no election')
    t.ok(await events() - known <= 1, `${await events() - known} events came of it`)
    rmSync(home, { recursive: true })
  })

  await t.test('a node has another quorum', async (t) => {
    await n3.kill()
    writeConfig(n3.home, n3.config({ quorum: 'majority' }))
    const started = up(t, n3.home, '--port', String(n3.node.port))
    t.match(await finds(n1, 'quorum_mismatch', n1), { result: 'fail', message: /1 here, majority on n3/ })
    t.match(await finds(n3, 'quorum_mismatch', n3), { result: 'fail', message: /majority here, 1 on n[12]/ })
    hardKill(started.pid)
    await started.ended
    await n3.start()
    await cluster.agreed()
    await until('all to be well', async () =>
      (await doctor(n1)).every(({ code }) => code !== 'quorum_mismatch'))
  })

  await t.test('a removed machine joins again with a new token', async (t) => {
    await n3.kill()
    const { nodeId } = n3.node
    const { status } = await ask(n1.node, `/cluster/members/${nodeId}`, { method: 'DELETE' })
    t.equal(status, 200)
    await n3.start()
    const found = await finds(n3, 'node_removed', n3)
    t.match(found, { result: 'fail', remedy: /Move its home aside.*svc join-token/ })
    t.notMatch(JSON.stringify(await doctor(n3)), /members remove/, 'the healthy nodes are not blamed')
    await n3.kill()
    const { token } = (await cluster.joinToken(n1)).json as { token: string }
    const again = up(t, n3.home, '--port', '0', '--join', token)
    t.equal(await again.ended, 5)
    t.match(again.stderr(), /was removed from the cluster.*Move its home aside/)
    const { json } = await ask(n1.node, '/cluster/join-tokens')
    t.equal((json as { tokens: unknown[] }).tokens.length, 1, 'the token is still good')
    await sameState([n1, n2])
  })
})
