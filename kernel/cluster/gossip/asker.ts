import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import type { ChildProcessByStdio } from 'node:child_process'
import type { Readable, Writable } from 'node:stream'
import type { Clock } from '../../api/clock.js'

/** Asks functions of the package systeminformation. */
export interface Asker {
  /** One call at a time; further ones wait. Rejects when it fails or takes over 15 s. */
  ask (call: string, ...args: unknown[]): Promise<unknown>
  close (): void
}

type Child = ChildProcessByStdio<Writable, Readable, null>

const TIMEOUT_MS = 15_000
/** An asked process waits this long for the next question. */
const IDLE_MS = 10_000
/** Where a system keeps its tools; what the user's PATH leads to is not run. */
export const SYSTEM_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/** Reads questions `{call, args}` line by line and writes `{value}` or `{error}`; ends with its input. */
const SCRIPT = `
const si = (await import(process.argv[1])).default
const { createInterface } = await import('node:readline')
for await (const line of createInterface({ input: process.stdin })) {
  const { call, args } = JSON.parse(line)
  let answer
  try { answer = { value: await si[call](...args) } } catch (error) { answer = { error: String(error) } }
  process.stdout.write(JSON.stringify(answer) + '\\n')
}`

/**
 * The package runs tools of the system synchronously, and a sick driver can hang them. So it is never loaded
 * into the node: it runs in a process of its own that is started when asked, killed when it hangs, and ended
 * when nobody asks any more.
 */
export function createAsker (options: { clock: Clock, path?: string, module?: string }): Asker {
  const { clock } = options
  let child: Child | undefined
  let tail: Promise<unknown> = Promise.resolve()
  let stopIdle = (): void => {}
  const end = (): void => {
    stopIdle()
    child?.kill('SIGKILL')
    child = undefined
  }
  const once = async (question: string): Promise<unknown> => {
    stopIdle()
    child ??= start(options)
    try {
      const answer = JSON.parse(await exchange(child, question, clock)) as { value?: unknown, error?: string }
      if (answer.error !== undefined) throw new Error(answer.error)
      stopIdle = clock.after(IDLE_MS, end)
      return answer.value
    } catch (error) {
      end()
      throw error
    }
  }
  return {
    ask (call, ...args) {
      const answer = tail.then(() => once(JSON.stringify({ call, args })))
      tail = answer.catch(() => {})
      return answer
    },
    close: end
  }
}

function start (options: { path?: string, module?: string }): Child {
  const module = options.module ?? import.meta.resolve('systeminformation')
  const child = spawn(process.execPath, ['--input-type=module', '--eval', SCRIPT, module], {
    stdio: ['pipe', 'pipe', 'ignore'],
    env: { PATH: options.path ?? SYSTEM_PATH, LANG: 'C' }
  })
  child.unref()
  for (const pipe of [child.stdin, child.stdout]) (pipe as unknown as { unref?: () => void }).unref?.()
  child.on('error', () => {})
  child.stdin.on('error', () => {})
  return child
}

/** Writes one line and waits for the next line of the answer. */
function exchange (child: Child, question: string, clock: Clock): Promise<string> {
  return new Promise((resolve, reject) => {
    const lines = createInterface({ input: child.stdout })
    const settle = (done: () => void): void => {
      cancel()
      lines.close()
      child.off('exit', gone)
      child.off('error', gone)
      done()
    }
    const fail = (why: string): void => { settle(() => { reject(new Error(`systeminformation ${why}`)) }) }
    const gone = (): void => { fail('ended without an answer') }
    const cancel = clock.after(TIMEOUT_MS, () => { fail(`gave no answer in ${TIMEOUT_MS / 1000} s`) })
    child.once('exit', gone)
    child.once('error', gone)
    lines.once('line', (line) => { settle(() => { resolve(line) }) })
    child.stdin.write(`${question}\n`)
  })
}
