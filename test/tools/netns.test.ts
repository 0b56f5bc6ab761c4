import t, { type Test } from 'tap'
import { spawn, spawnSync } from 'node:child_process'
import { cleanEnv, until } from '../node/kit.js'
import { available, createLan, type Lan } from './netns.js'

const why = available()

/** Source of an echo server for one machine; prints "ready" once it listens. */
const ECHO = 'require("net").createServer((s) => { s.on("error", () => {}); s.pipe(s) })' +
  '.listen(7000, () => console.log("ready"))'
/** Source of a client that sends a line every 50 ms and prints the echoes. */
const TALK = 'const s = require("net").connect(7000, process.argv[1]); let n = 0; ' +
  'setInterval(() => s.write(n++ + "\\n"), 50); s.pipe(process.stdout)'

function start (t: Test, lan: Lan, machine: number, code: string, ...args: string[]): () => string {
  const [command, ...before] = [...lan.on(machine), process.execPath]
  const child = spawn(command, [...before, '-e', code, ...args], { env: cleanEnv(),
    stdio: ['ignore', 'pipe', 'inherit'] })
  t.teardown(() => { child.kill('SIGKILL') })
  let said = ''
  child.stdout.on('data', (bytes: Buffer) => { said += bytes.toString() })
  return () => said
}

const lines = (said: () => string): number => said().split('\n').length - 1

t.test('machines that are cut from each other', { skip: why ?? false }, async (t) => {
  await t.test('a LAN', async (t) => {
    const lan = createLan(t, 3)
    const ready = [1, 2].map((machine) => start(t, lan, machine, ECHO))
    await until('the echo', () => ready.every((said) => said() === 'ready\n'))
    const cut = start(t, lan, 3, TALK, lan.address(1))
    const kept = start(t, lan, 3, TALK, lan.address(2))
    await until('both to talk', () => lines(cut) > 2 && lines(kept) > 2)

    const goesOn = async (said: () => string): Promise<void> => {
      const before = lines(said)
      await until('the conversation to continue', () => lines(said) > before + 3)
    }
    lan.cut(1, 3)
    await goesOn(kept)
    const held = lines(cut)
    await goesOn(kept)
    t.equal(lines(cut), held, 'nothing passes the cut, and nothing ends')
    lan.heal(1, 3)
    await goesOn(cut)
    t.strictSame(cut().split('\n').slice(0, 5), ['0', '1', '2', '3', '4'], 'what was sent meanwhile arrives')

    lan.isolate(3)
    const silent = [lines(cut), lines(kept)]
    await until('the test still reaches machine 1', () => reaches(lan.address(1)))
    t.ok([cut, kept].every((said, i) => lines(said) <= silent[i]! + 2))
    lan.rejoin(3)
    await Promise.all([goesOn(cut), goesOn(kept)])

    lan.unplug(2)
    t.notOk(reaches(lan.address(2)), 'a pulled cable')
    lan.plug(2)
    await until('the cable is back', () => reaches(lan.address(2)))
  })
  const left = spawnSync('ip', ['netns', 'list'], { encoding: 'utf8' }).stdout
  t.notMatch(left, new RegExp(`svc${process.pid}`), 'nothing is left behind')
  t.notMatch(spawnSync('ip', ['link'], { encoding: 'utf8' }).stdout, new RegExp(`svc${process.pid}`))
})

/** Whether a TCP connection to the echo server at an address opens within a second. */
function reaches (address: string): boolean {
  const code = 'const s = require("net").connect(7000, process.argv[1], () => process.exit(0)); ' +
    's.on("error", () => process.exit(1)); setTimeout(() => process.exit(1), 1000)'
  return spawnSync(process.execPath, ['-e', code, address], { env: cleanEnv() }).status === 0
}

t.test('without LANs the reason is given', async (t) => {
  t.ok(why === null || /Linux|root|no network namespaces here/.test(why), String(why))
})
