/** The compiled engine in real runner processes, which cannot load TypeScript. */
import { existsSync } from 'node:fs'
import t from 'tap'
import { bench, hear, type TestCase } from '../../runners/test/process-kit.js'
import { entries, folder, lives, specOf, standIn, talk, textIn, until, type Scenario } from './llama-kit.js'

const ENGINE = new URL('../../../dist/plugins/llama-cpp/server/index.js', import.meta.url)
/** The client's error message, which omits the cause; only the log has the cause. */
const LOST = 'The instance serving this task was lost: its program ended.'
const skip = existsSync(ENGINE) ? false : 'needs the compiled engine: run `npm run build` first'

t.test('a server in a runner', { skip }, async (t) => {
  const started = async (t: TestCase, scenario: Scenario = {}) => {
    const directory = folder(t)
    const { binary, journal } = standIn(directory, scenario)
    const spec = specOf(directory, binary)
    const rig = bench(t, {}, { spec, engineModule: ENGINE.href, scratch: folder(t) })
    await rig.ready()
    const pids = (): number[] =>
      entries(journal).flatMap((entry) => 'start' in entry ? Number(entry['pid']) : [])
    const chat = (word: string) => rig.supervisor.open(word, { kind: 'chat', payload: talk(word) },
      new AbortController().signal)
    return { ...rig, pids, chat, journal: () => entries(journal) }
  }

  await t.test('ends with the runner, however that ends', async (t) => {
    const { pid, pids, chat, supervisor } = await started(t)
    const [first] = pids()
    t.ok(lives(Number(first)))
    const heard = await hear(chat('slow'), (index) => {
      if (index === 3) process.kill(pid(), 'SIGKILL')
    })
    t.match(heard.error, { reason: 'instance_lost', message: LOST })
    await until('the first server is gone', () => !lives(Number(first)))
    await until('another one serves', () => 'RunnerReady' in supervisor.status && pids().length === 2)
    t.match((await hear(chat('go'))).payloads.at(-1), { choices: [{ finish_reason: 'stop' }] })
    await supervisor.stop()
    t.notOk(lives(Number(pids()[1])), 'an orderly stop')
  })

  await t.test('ends the runner when it ends, and says why', async (t) => {
    const { pids, chat, supervisor } = await started(t)
    const heard = await hear(chat('crash'))
    t.equal(heard.end, 'instance_lost')
    t.match(heard.error, { message: LOST, details: {} }, 'as with the llama.cpp in svc')
    t.match(heard.error?.cause, /llama-server was ended by SIGKILL/, 'for the log')
    await until('another one serves', () => 'RunnerReady' in supervisor.status && pids().length === 2)
    t.notOk(lives(Number(pids()[0])))
  })

  await t.test('hears of a cancelled task', async (t) => {
    const { chat, journal } = await started(t)
    for await (const chunk of chat('slow')) if (textIn(chunk.payload) !== undefined) break
    await until('the connection is closed', () => journal().some((entry) => entry['closed'] === 'slow'))
  })
})
