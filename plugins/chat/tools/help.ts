import { Worker } from 'node:worker_threads'
import { fact, quoted, type DeclarationSet, type Tool } from '../../../kernel/cli/index.js'
import { systemClock } from '../../../kernel/index.js'
import { declaredSheets } from '../guide/declared.js'
import { ThreadClient } from '../thread-client.js'
import type { Found } from '../guide/search.js'

/** Idle time in ms after which the search thread ends, to free its memory. */
const IDLE_MS = 120_000

/** The read-only tool `help`: answers a question from the sheets of `svc help`. */
export default {
  async run (ctx, { question }) {
    const { answer, id, sure, near } = await found(await ctx.declared(), question)
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

let search: ThreadClient<string, Found> | undefined
let stopIdling = (): void => {}

/** Searches in a thread, because indexing all sheets would block the node's event loop. */
async function found (declared: DeclarationSet, question: string): Promise<Found> {
  search ??= new ThreadClient(() => new Worker(new URL('../guide/thread.js', import.meta.url),
    { workerData: declaredSheets(declared) }))
  try {
    return await search.ask(question)
  } finally {
    stopIdling()
    stopIdling = systemClock.after(IDLE_MS, () => { void search?.close() })
  }
}
