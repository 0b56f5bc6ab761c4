import t from 'tap'
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, renameSync, rmSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { ask } from './http.js'
import { acknowledged, quiet, startCluster, type Member } from './cluster-kit.js'
import { cli, placeOn, root, sleep, until } from './kit.js'

/** The previous release, which must be able to form a cluster with nodes of the current source. */
const PREVIOUS = { version: '0.1.0', commit: 'b7c9e087c89340d06b94302a83d4339917eeb843' }

const BUILD = ['npx tsc -p tsconfig.build.json --noCheck', 'node kernel/build/bundle.mjs',
  'node kernel/build/finish.mjs'].join(' && ')

/**
 * Builds the previous release once, with the current packages, and returns the path of its main file. It may
 * need packages that are no longer installed, so its types are not checked and its page is left out.
 */
function previousRelease (): string {
  const folder = join(root, `.tap/release-${PREVIOUS.version}`)
  if (!existsSync(folder)) {
    const half = `${folder}.${process.pid}`
    mkdirSync(half, { recursive: true })
    try {
      symlinkSync(join(root, 'node_modules'), join(half, 'node_modules'))
      for (const command of [`git -C '${root}' archive ${PREVIOUS.commit} | tar -x`, BUILD]) {
        const { status, stdout, stderr } = spawnSync('sh', ['-c', command], { cwd: half, encoding: 'utf8' })
        if (status !== 0) throw new Error(`${command}: ${stdout}${stderr}`)
      }
      renameSync(half, folder)
    } finally {
      rmSync(half, { recursive: true, force: true })
    }
  }
  return join(folder, 'dist/kernel/cli/main.js')
}

const { status } = spawnSync('git', ['-C', root, 'cat-file', '-e', `${PREVIOUS.commit}^{commit}`])
const skip = status !== 0 && `a shallow clone: ${PREVIOUS.commit}, release ${PREVIOUS.version}, is missing`

t.setTimeout(600_000)

t.test(`a rolling upgrade from ${PREVIOUS.version} keeps one master throughout`, { skip }, async (t) => {
  // With the product's own timing, two nodes on a busy machine do not become candidates at the same time.
  const cluster = await startCluster(t, {
    nodes: 4, joined: 3, electionMs: 3000, config: quiet, script: previousRelease()
  })
  const [n1, n2, n3, n4] = cluster.members as [Member, Member, Member, Member]
  await placeOn(n1.node, 'svc/voice-en')

  /** For each session, the masters that any node reported. */
  const seen = new Map<string, Set<string>>()
  let watching = true
  const watch = Promise.all(cluster.members.map(async (member) => {
    for (; watching; await sleep(50)) {
      const state = member.up ? await member.state() : undefined
      if (state?.masterNodeId == null) continue
      seen.set(state.sessionId, (seen.get(state.sessionId) ?? new Set()).add(state.masterNodeId))
    }
  }))
  const whole = async (stage: string): Promise<void> => {
    await t.test(stage, async (t) => {
      const on = cluster.up()
      await cluster.agreed({ seconds: 60 })
      for (const member of on) {
        await acknowledged([member])
        await until(`speech by ${member.name}`, async () => (await ask(member.node, '/v1/audio/speech',
          { body: { model: 'svc/voice-en', input: 'One.', response_format: 'wav' } })).status === 200)
        await until(`${member.name} to know the memory of all`, async () =>
          Object.keys((await member.state())!['nodeMemory'] as object).length === on.length)
        const metrics = (await ask(member.node, '/metrics')).text
        t.notMatch(metrics, /^svc_cluster_messages_dropped_total\S* [1-9]/m, `${member.name} understands all`)
      }
    })
  }
  await whole('the previous release')
  const { token } = (await cluster.joinToken(n1)).json as { token: string }
  await n4.start({ args: ['--join', token], script: cli })
  await whole('a node of this source joins')
  t.equal(seen.size, 1)
  for (const member of [n2, n3, n1]) {
    process.kill(member.node.child.pid, 'SIGTERM')
    await member.node.child.ended
    await member.kill()
    await member.start({ script: cli })
    await whole(`${member.name} is upgraded`)
    t.equal(seen.size, member === n1 ? 2 : 1, 'only the end of the master ends its session')
  }
  watching = false
  await watch
  for (const [session, masters] of seen) t.equal(masters.size, 1, `one master of ${session}`)
  t.notMatch(JSON.stringify((await n1.state())!.nodeHealth), /version_mismatch/)
})
