import t, { type Test } from 'tap'
import { spawn } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { systemClock } from '../../kernel/api/clock.js'
import { noInspector } from '../../kernel/boot/inspector.js'
import { systemInformation } from '../../plugins/runners/machine/io.js'
import { cleanEnv, cli, faultsConfig, folder, root, run, sleep, startNode, svc, until } from './kit.js'
import { alive, cmdline, descendants, portsOf } from './proc.js'

const USR1 = 1n << 9n
const skip = !existsSync('/proc/self/status') && 'needs /proc'

/** Whether a process has the signal in one of its masks in /proc: SigBlk, SigCgt, ShdPnd. */
const masks = (pid: number, name: string): boolean => {
  try {
    const text = readFileSync(`/proc/${pid}/status`, 'utf8')
    return (BigInt(`0x${new RegExp(`^${name}:\\s+(\\w+)$`, 'm').exec(text)?.[1] ?? '0'}`) & USR1) !== 0n
  } catch {
    return false
  }
}

const runsNode = (pid: number): boolean => {
  try {
    return basename(readlinkSync(`/proc/${pid}/exe`)) === 'node'
  } catch {
    return false
  }
}

/** Sends the signal several times and checks that the process does not listen on a new port. */
async function unmoved (t: Test, kind: string, pid: number): Promise<void> {
  const before = portsOf(pid)
  for (let n = 0; n < 5; n++) {
    process.kill(pid, 'SIGUSR1')
    await until(`${kind} takes the signal or blocks it`, () =>
      !masks(pid, 'ShdPnd') || masks(pid, 'SigBlk'))
    // Waits, because the inspector's thread opens its port a moment after the signal.
    for (let look = 0; look < 10 && portsOf(pid).length === before.length; look++) await sleep(10)
  }
  t.strictSame(portsOf(pid), before, `${kind}: nothing else listens`)
  t.ok(alive(pid), `${kind} lives on`)
}

t.test('SIGUSR1 opens no inspector in any svc process', { skip }, async (t) => {
  const node = await startNode(t, { config: faultsConfig() })
  await unmoved(t, 'the launcher', node.child.pid)
  await unmoved(t, 'the node', node.pid)
  for (const pid of node.runners()) await unmoved(t, 'a runner', pid)
  const verb = run(process.execPath, [cli, 'state', '--follow', '--home', node.home])
  await until('the verb', () => verb.stdout() !== '')
  await unmoved(t, 'a verb', verb.pid)
  verb.process.kill('SIGKILL')

  const dir = join(folder(t), 'slow')
  await svc(['plugin', 'new', 'slow', '--dir', dir])
  writeFileSync(join(dir, 'index.js'), 'await new Promise((resolve) => { setInterval(resolve, 60_000) })\n')
  const install = run(process.execPath, [cli, 'plugin', 'install', dir, '--yes', '--home', node.home])
  const describing = await until('the process that reads a package\'s manifest', () =>
    descendants(install.pid).find((pid) => cmdline(pid).includes('svc-manifest')))
  await until('it runs', () => /plugin-slow/.test(cmdline(describing)))
  await unmoved(t, 'the installing verb', install.pid)
  await unmoved(t, 'a package that is described', describing)
  install.process.kill('SIGKILL')
  process.kill(describing, 'SIGKILL')

  const ask = systemInformation(systemClock)
  await ask('time')
  const asked = descendants(process.pid).find((pid) => cmdline(pid).includes('systeminformation'))!
  await unmoved(t, 'the process that asks the system', asked)
  process.kill(asked, 'SIGKILL')
})

t.test('nor before the first line of a script', { skip }, async (t) => {
  const lines = 'process.stdin.resume()'
  for (const [kind, words, opens] of [
    ['a plain node', ['--eval', lines], true],
    ['a child', [...noInspector(), '--eval', lines], false],
    ['a verb of the packaged program', [cli, 'relay', '--port', '0', '--host', '127.0.0.1'], false],
    ['a verb by ./svc', [join(root, 'svc'), 'relay', '--port', '0', '--host', '127.0.0.1'], false]
  ] as const) {
    const isVerb = kind.startsWith('a verb')
    const [command, ...args] = isVerb ? words : [process.execPath, ...words] as const
    const child = spawn(command, args,
      { stdio: ['pipe', 'ignore', 'ignore'], env: cleanEnv() })
    t.teardown(() => child.kill('SIGKILL'))
    const pid = child.pid!
    // Node blocks the signal until its inspector can handle it. The shell of ./svc also blocks it while it
    // starts a command, but would be killed by it, so the test waits until the process runs Node.
    await until(`${kind} starts`, () => !alive(pid) || (masks(pid, 'SigBlk') && runsNode(pid)),
      { everyMs: 0 })
    process.kill(pid, 'SIGUSR1')
    await until(`${kind} has started`, () => masks(pid, 'SigCgt'))
    const inspected = (): boolean => portsOf(pid).includes(9229)
    if (opens) await until('the inspector', inspected)
    else {
      let seen = false
      await until(kind, () => {
        seen ||= inspected()
        return !isVerb || portsOf(pid).length > 0
      }, { everyMs: 0 })
      t.notOk(seen, `${kind}, at any moment`)
      await unmoved(t, `${kind} at its start`, pid)
    }
    t.equal(inspected(), opens, kind)
    child.kill('SIGKILL')
    await until(`${kind} is gone`, () => !alive(pid))
  }
})

t.test('every start of a Node process passes the option', (t) => {
  for (const top of ['kernel', 'plugins']) {
    const files = readdirSync(join(root, top), { recursive: true, encoding: 'utf8' })
      .filter((path) => /\.ts$/.test(path) && !/(^|\/)(test|fixtures)\//.test(path))
    for (const path of files) {
      const text = readFileSync(join(root, top, path), 'utf8')
      const starts = text.match(/process\.execPath,?\s*\[|\[[^\]]*process\.execPath[,\]](?! '-v')/g) ?? []
      t.ok(starts.length === 0 || text.includes('noInspector()') || path.endsWith('confine.ts'), path)
    }
  }
  t.end()
})
