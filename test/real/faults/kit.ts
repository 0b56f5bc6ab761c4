/** Streams of real tokens that show whether they are whole, and the processes behind them. */
import { readFileSync } from 'node:fs'
import { open, type At } from '../../node/http.js'
import { cmdline, descendants } from '../../node/proc.js'
import { sleep, until, type TestNode } from '../../node/kit.js'

export const MODEL = 'test/smollm2'
/** Context of each slot. */
export const CONTEXT = 1024
/** SmolLM2 continues this at temperature 0, so that a missing or repeated token shows in the text. */
const COUNT = '1, 2, 3, 4, 5,'
const HZ = 100

/** The end of a stream. `whole` is true if a finish reason and then `[DONE]` arrived. */
export interface End {
  text: string
  finish: string | null
  tokens: number | undefined
  whole: boolean
  errors: { reason: string, retryable: boolean }[]
  /** Time of the end on the clock of `performance`. */
  at: number
}

export interface Stream { end: Promise<End>, text (): string, taskId: string, abort (): void }

interface Event {
  choices?: { text?: string, delta?: { content?: string }, finish_reason: string | null }[]
  usage?: { completion_tokens: number } | null
  error?: { reason: string, retryable: boolean }
}

const eventsOf = (got: string): Event[] => got.split('\n')
  .filter((line) => line.startsWith('data: {')).map((line) => JSON.parse(line.slice(6)) as Event)

const wordsOf = (events: readonly Event[]): string => events.map(({ choices }) =>
  choices?.[0]?.text ?? choices?.[0]?.delta?.content ?? '').join('')

/** Opens a stream that counts, for long unless `more` says otherwise; resolves after its first text. */
export async function counting (at: At, more: Record<string, unknown> = {}): Promise<Stream> {
  const body = { model: MODEL, prompt: COUNT, temperature: 0, stream: true, max_tokens: 900,
    stream_options: { include_usage: true }, ...more }
  const response = await open(at, '/v1/completions', { body })
  let got = ''
  response.setEncoding('utf8')
  response.on('data', (text: string) => { got += text })
  const end = new Promise<End>((resolve) => {
    const over = (): void => {
      const whole = got.slice(0, got.lastIndexOf('\n\n') + 2)
      const events = eventsOf(whole)
      const finish = events.map(({ choices }) => choices?.[0]?.finish_reason).find((each) => each != null)
      resolve({
        text: wordsOf(events), finish: finish ?? null,
        tokens: events.findLast(({ usage }) => usage != null)?.usage?.completion_tokens,
        whole: finish !== undefined && whole.endsWith('data: [DONE]\n\n'),
        errors: events.flatMap(({ error }) => error ?? []),
        at: performance.now()
      })
    }
    response.on('close', over)
    response.on('error', () => {})
  })
  const text = (): string => wordsOf(eventsOf(got.slice(0, got.lastIndexOf('\n\n') + 2)))
  if (response.statusCode !== 200) {
    await end
    throw new Error(`${response.statusCode} ${got}`)
  }
  await until('the first text of a stream', () => text() !== '' || response.destroyed)
  return { end, text, taskId: String(response.headers['x-svc-task-id']), abort: () => { response.destroy() } }
}

/** The end of a stream, or 'hangs' after some seconds. */
export async function endWithin (stream: Stream, seconds: number): Promise<End | 'hangs'> {
  const over = new AbortController()
  const late = sleep(seconds * 1000, over.signal).then(() => 'hangs' as const)
  return await Promise.race([stream.end, late]).finally(() => { over.abort() })
}

/** Whether a text counts on from 6 without a gap; its last number may be cut. */
export function counts (text: string): boolean {
  const numbers = text.split(',').map((each) => each.trim())
  return numbers.length > 2 && numbers.every((each, i) =>
    i === numbers.length - 1 ? String(i + 6).startsWith(each) : each === String(i + 6))
}

/** Pids of the processes of a node that hold the model: llama-server, or the runner of the library. */
export function engines (node: TestNode): number[] {
  const programs = node.runners().flatMap(descendants)
    .filter((pid) => cmdline(pid).split(' ')[0]!.endsWith('/llama-server'))
  return programs.length > 0 ? programs : node.runners()
}

/** Processor time of a process in seconds. */
export function cpuOf (pid: number): number {
  const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) / HZ
}

/** Share of one core that a process uses during a time. */
export async function loadOf (pid: number, ms = 1000): Promise<number> {
  const [start, before] = [performance.now(), cpuOf(pid)]
  await sleep(ms)
  return (cpuOf(pid) - before) / (performance.now() - start) * 1000
}
