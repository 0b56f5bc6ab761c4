import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { UntrustedJobs, type JobBounds, type JobProblem } from '../untrusted/jobs.js'

const module = new URL('fixtures/jobs.mjs', import.meta.url).href
const BOUNDS: JobBounds = {
  deadlineMs: 20_000, heapMib: 64, resultBytes: 10_000, waiting: 4, waitingOfOne: 2
}

function jobsOf (t: Test, bounds: Partial<JobBounds> = {}) {
  const jobs = new UntrustedJobs({ ...BOUNDS, ...bounds })
  t.teardown(() => { jobs.close() })
  const run = async (name: string, args: unknown[] = [], caller = 'a'): Promise<unknown> =>
    await jobs.run({ module, name, args, what: 'the test' }, caller)
  return { jobs, run }
}

const gone = (pid: number): boolean => {
  // A zombie has ended and only waits for its parent to reap it.
  try { return / Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8')) } catch { return true }
}

async function until (what: string, holds: () => boolean): Promise<void> {
  for (let i = 0; !holds(); i++) {
    if (i > 600) throw new Error(`waited in vain for ${what}`)
    await new Promise((resolve) => { setTimeout(resolve, 50) })
  }
}

t.test('a job has its result', async (t) => {
  const { jobs, run } = jobsOf(t)
  t.same(await run('echo', [{ a: [1, 'ß', null] }]), { a: [1, 'ß', null] })
  t.equal(await run('waits', [1]), null)
  const pid = await run('pid')
  t.not(pid, process.pid)
  t.equal(await run('pid'), pid, 'one process does them all')
  t.equal(jobs.pid, pid)
  t.equal(await run('shouts'), 'quiet')
  const seen = await run('environment') as string[]
  const ofShell = /^(NODE_CHANNEL_\w+|PWD|OLDPWD|SHLVL|_)$/
  t.same(seen.filter((name) => !ofShell.test(name)), [], 'no secret of the node')
})

const bad: [string, unknown[], JobProblem, RegExp][] = [
  ['fails', [], 'failed', /^the file is \\u001b\[31mbroken\\u202e$/],
  ['circle', [], 'failed', /circular/],
  ['recurses', [0], 'failed', /call stack/],
  ['none', [], 'failed', /not a function/],
  ['writes', [9_999], 'too_large', /^the test returned 10001 bytes, more than 10000$/],
  ['ends', [], 'ended', /^the test ended its process \(code 3\)$/],
  ['spins', [], 'deadline', /^the test took longer than 0.3 s$/],
  ['waits', [60_000], 'deadline', /^the test took longer than 0.3 s$/],
  ...['flattens', 'maps', 'pushes', 'buffers'].map((name): (typeof bad)[number] =>
    [name, [], 'memory', /^the test needed more than 64 MiB of memory$/])
]
t.test('a job that fails, or meets a bound, costs nobody else anything', async (t) => {
  const { run } = jobsOf(t)
  const short = jobsOf(t, { deadlineMs: 300 })
  for (const [name, args, reason, message] of bad) {
    const own = reason === 'deadline' ? short.run : run
    await t.rejects(own(name, args), { name: 'JobError', reason, message }, name)
    t.equal(await own('echo', [1]), 1, 'the next one is served')
  }
})

t.test('jobs of different callers take turns, and no more than may wait', async (t) => {
  const { run } = jobsOf(t)
  const order: string[] = []
  const one = async (caller: string): Promise<void> => {
    await run('waits', [1], caller)
    order.push(caller)
  }
  const busy = one('first')
  const all = [one('greedy'), one('greedy')]
  await t.rejects(one('greedy'), { name: 'JobError', message: /at most 4 and 2 may wait/ })
  all.push(one('b'), one('c'))
  await t.rejects(one('d'), { name: 'JobError', reason: 'overloaded' })
  await Promise.all([busy, ...all])
  t.same(order, ['first', 'greedy', 'b', 'c', 'greedy'])
})

t.test('what is closed ends what runs and what waits', async (t) => {
  const { jobs, run } = jobsOf(t)
  const pid = await run('pid') as number
  const all = Promise.allSettled([run('spins'), run('echo')])
  jobs.close()
  t.match(await all, [{ reason: { reason: 'closed' } }, { reason: { reason: 'closed' } }])
  await t.rejects(run('echo'), { name: 'JobError', reason: 'closed' })
  await until('the end of the process', () => gone(pid))
})

t.test('a process whose node is killed ends in the middle of its job', async (t) => {
  const node = `import('${new URL('../untrusted/jobs.js', import.meta.url).href}')
    .then(async ({ UntrustedJobs }) => {
      const jobs = new UntrustedJobs(${JSON.stringify(BOUNDS)})
      const run = (name) => jobs.run({ module: '${module}', name, args: [], what: 'x' }, 'x')
      process.stdout.write(String(await run('pid')))
      run('spins')
      setTimeout(() => process.kill(process.pid, 'SIGKILL'), 500)
    })`
  const loader = fileURLToPath(new URL('../../test/tools/typescript.mjs', import.meta.url))
  const { stdout, signal } = spawnSync(process.execPath, [`--import=${loader}`, '-e', node],
    { encoding: 'utf8', env: {} })
  t.equal(signal, 'SIGKILL')
  t.match(stdout, /^\d+$/)
  await until('the end of the process', () => gone(Number(stdout)))
})
