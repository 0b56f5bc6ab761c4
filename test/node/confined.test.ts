import t, { type Test } from 'tap'
import { existsSync, mkdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { ask, streamed } from './http.js'
import { does, ready, TTS } from './engine.js'
import { faultsConfig, folder, startNode, svc, type TestNode } from './kit.js'

const skip = !existsSync('/usr/bin/setpriv') && 'no setpriv here'

/** A PATH that contains only these programs of util-linux. */
function only (t: Test, ...names: string[]): string {
  const path = join(folder(t), 'bin')
  mkdirSync(path)
  for (const name of names) symlinkSync(`/usr/bin/${name}`, join(path, name))
  return path
}

/** HTTP status of a runner's request to the API without a credential; 1 if the runner cannot connect. */
async function answerTo (node: TestNode): Promise<number> {
  await ready(node, 'test/ok')
  const heard = await streamed(node, TTS, does('test/ok', 'api', { url: `${node.url}/state` }))
  const rates = heard.frames.map(({ header }) =>
    (header as { payload?: { sample_rate?: number } }).payload?.sample_rate)
  return rates.find((rate) => rate !== undefined) ?? 0
}

t.test('no runner has the rights of a local program', { skip }, async (t) => {
  const node = await startNode(t, { config: faultsConfig(), env: { PATH: only(t, 'setpriv', 'prlimit') } })
  t.equal(await answerTo(node), 401)
  t.equal((await ask(node, '/state', { token: null })).status, 200, 'others have them')
  const { stdout } = await svc(['doctor', '--home', node.home])
  t.match(stdout, /warn .*PATH has no unshare, mount, umount, pivot_root: .*runners_unconfined/)
})

t.test('a runner in namespaces does not reach the API', { skip }, async (t) => {
  const node = await startNode(t, { config: faultsConfig() })
  const { hold } = await ready(node, 'test/ok') as { hold?: string }
  t.equal(await answerTo(node), hold === 'namespaces' || hold === 'network' ? 1 : 401)
})
