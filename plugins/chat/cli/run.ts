import { readModelId } from '../../../kernel/cli/index.js'
import { addAbortSignal } from 'node:stream'
import type { Verb, VerbContext } from '../../../kernel/cli/index.js'
import { converse } from './repl.js'
import { askOf, readSettings } from './settings.js'
import { takeTurn } from './turn.js'

/** Longest text that is read from a pipe, bytes. */
const STDIN_MAX = 16 * 1024 * 1024

/** `svc run`: one answer to a prompt or a pipe, else a conversation on the terminal. */
export default {
  async run (ctx, [model, ...words], options) {
    const settings = readSettings(ctx, readModelId(ctx, model!), options)
    if (words.length === 0 && ctx.io.stdin.isTTY === true) return await converse(ctx, settings)
    const content = await promptOf(ctx, words.join(' '))
    if (content.trim() === '') {
      throw ctx.fail(2, `there is nothing to ask: svc run ${model!} "hello", or a text through a pipe`)
    }
    const ask = askOf(settings, [{ role: 'user', content }])
    const { cancelled } = await takeTurn(ctx, ask, { signal: ctx.signal, stats: settings.stats })
    if (cancelled) throw ctx.fail(130, 'interrupted')
  }
} satisfies Verb

/** The words, and what comes through the pipe after them; `-` stands for the pipe alone. */
async function promptOf (ctx: VerbContext, words: string): Promise<string> {
  if (words !== '-' && ctx.io.stdin.isTTY === true) return words
  const piped = (await readStdin(ctx)).replace(/[\r\n]+$/, '')
  return [words === '-' ? '' : words, piped].filter((text) => text !== '').join('\n\n')
}

async function readStdin (ctx: VerbContext): Promise<string> {
  const parts: Buffer[] = []
  let size = 0
  for await (const part of addAbortSignal(ctx.signal, ctx.io.stdin)) {
    const bytes = Buffer.from(part as Uint8Array | string)
    size += bytes.length
    if (size > STDIN_MAX) throw ctx.fail(2, `the text of the pipe is over ${STDIN_MAX} bytes`)
    parts.push(bytes)
  }
  return Buffer.concat(parts).toString('utf8')
}
