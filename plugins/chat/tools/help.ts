import { Worker } from 'node:worker_threads'
import { fact, quoted } from '../../../kernel/cli/index.js'
import { systemClock } from '../../../kernel/index.js'
import { declaredSheets } from '../guide/declared.js'
import type { DeclarationSet, Tool } from '../../../kernel/cli/index.js'
import type { Found } from '../guide/search.js'
import type { ThreadAnswer, ThreadQuestion } from '../guide/thread.js'

/** Idle time in ms after which the search thread ends, to free its memory. */
const IDLE_MS = 120_000

/** The read-only tool `help`: answers a question from the sheets of `svc help`. */
export default {
  async run (ctx, { question }) {
    const { answer, id, sure, near } = await found(ctx.declared, question)
    if (id === 'decline') return { facts: [], unknown: ['`svc help` has no answer on that subject.'] }
    const titles = near.map(({ title }) => quoted(title))
    return {
      facts: [fact('info', sure ? 'help' : 'help_unsure', answer, {
        about: [id.replace(/^error:/, ''), ...titles],
        remedy: sure && id.startsWith('error:') ? commandsOf(answer) : null
      })],
      unknown: sure ? [] : [`This may not be the intended subject; the nearest are ${titles.join(', ')}.`]
    }
  }
} satisfies Tool<{ question: string }>

/** The sentences that name a command; null if there are none. */
function commandsOf (text: string): string | null {
  const sentences = text.split(/(?<=[.:])\s+/).filter((one) => one.includes('`svc '))
  return sentences.length === 0 ? null : sentences.join(' ')
}

let searcher: Searcher | undefined

/** Searches in a thread, because indexing all sheets would block the node's event loop. */
async function found (declared: () => Promise<DeclarationSet>, question: string): Promise<Found> {
  const own = searcher ??= new Searcher(declared(), () => { searcher = undefined })
  return await own.ask(question)
}

/** A search thread that ends when idle. */
class Searcher {
  readonly #thread: Promise<Worker>
  readonly #waiting = new Map<number, { resolve: (found: Found) => void, reject: (error: Error) => void }>()
  readonly #ended: () => void
  #asked = 0
  #stopIdling = (): void => {}

  constructor (declared: Promise<DeclarationSet>, ended: () => void) {
    this.#ended = ended
    this.#thread = declared.then((all) => this.#start(all))
    this.#thread.catch(ended)
  }

  async ask (question: string): Promise<Found> {
    this.#stopIdling()
    const thread = await this.#thread
    const id = this.#asked++
    return await new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject })
      thread.ref()
      thread.postMessage({ id, question } satisfies ThreadQuestion)
    })
  }

  #start (declared: DeclarationSet): Worker {
    const thread = new Worker(new URL('../guide/thread.js', import.meta.url),
      { workerData: declaredSheets(declared) })
    thread.on('message', ({ id, found }: ThreadAnswer) => {
      this.#waiting.get(id)?.resolve(found)
      this.#waiting.delete(id)
      if (this.#waiting.size > 0) return
      thread.unref()
      this.#stopIdling()
      this.#stopIdling = systemClock.after(IDLE_MS, () => { void thread.terminate() })
    })
    thread.on('error', (error) => { this.#end(error) })
    thread.on('exit', () => { this.#end(new Error('the search thread of the guide has ended')) })
    return thread
  }

  #end (error: Error): void {
    this.#ended()
    for (const { reject } of this.#waiting.values()) reject(error)
    this.#waiting.clear()
  }
}
