// The systemd units of docs/deploy are as strict as documented, and a node works in their sandbox.
import { spawnSync } from 'node:child_process'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { cli, folder, root, until } from './node/kit.js'

const ran = (command: string, ...words: string[]): { status: number | null, out: string } => {
  const { status, stdout, stderr } = spawnSync(command, words, { encoding: 'utf8' })
  return { status, out: `${stdout}${stderr}` }
}

const analyses = ran('systemd-analyze', '--version').status === 0
const runs = process.getuid?.() === 0 && /^(running|degraded)/.test(ran('systemctl', 'is-system-running').out)

/** A unit of docs/deploy that starts the program of this checkout. */
const unit = (name: string): string => readFileSync(join(root, 'docs/deploy', name), 'utf8')
  .replace('/opt/svc/node_modules/.bin/svc', `${process.execPath} ${cli}`)

t.test('the units are valid, and in a sandbox', {
  skip: analyses ? false : 'systemd-analyze is not here'
}, (t) => {
  const check = (t: Test, name: string, most: number): void => {
    const path = join(folder(t), name)
    writeFileSync(path, unit(name))
    const verified = ran('systemd-analyze', 'verify', path)
    t.match(verified, { status: 0 }, verified.out)
    const [, score] = /exposure level for \S+: ([\d.]+)/.exec(
      ran('systemd-analyze', 'security', '--offline=true', path).out) ?? []
    if (score === undefined) t.comment('this systemd-analyze cannot check a file')
    else t.ok(Number(score) <= most, `${name}: ${score}`)
  }
  check(t, 'svc.service', 2.9)
  check(t, 'svc-relay.service', 2.9)
  t.end()
})

t.test('a node under the unit speaks, and is stopped', {
  skip: runs ? false : 'systemd does not run here, or not for root'
}, async (t) => {
  const name = `svc-test-${process.pid}`
  const path = `/run/systemd/system/${name}.service`
  const state = `/var/lib/${name}`
  t.teardown(() => {
    ran('systemctl', 'stop', name)
    rmSync(path, { force: true })
    rmSync(state, { recursive: true, force: true })
    ran('systemctl', 'daemon-reload')
  })
  // The unit hides home folders, one of which may contain the checkout.
  writeFileSync(path, unit('svc.service').replace('User=svc', 'DynamicUser=yes')
    .replace('StateDirectory=svc', `StateDirectory=${name}`)
    .replace('/var/lib/svc', `${state} --port 0`)
    .replace('ProtectHome=yes', `ProtectHome=tmpfs\nBindReadOnlyPaths=${root}`))
  ran('systemctl', 'daemon-reload')
  t.match(ran('systemctl', 'start', name), { status: 0 }, ran('journalctl', '-u', name, '-n', '30').out)
  const url = await until('the node listens', () => {
    try {
      return (JSON.parse(readFileSync(join(state, 'run/node.json'), 'utf8')) as { url: string }).url
    } catch { return undefined }
  })
  await until('it is ready', async () => (await fetch(`${url}/readyz`)).status === 200)
  const answer = await fetch(`${url}/v1/audio/speech`, {
    method: 'POST', headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'svc/voice-en', input: 'Hello' })
  })
  t.equal(answer.status, 200, await answer.clone().text().catch(() => ''))
  t.ok((await answer.arrayBuffer()).byteLength > 1000)
  t.match(ran('systemctl', 'stop', name), { status: 0 })
})
