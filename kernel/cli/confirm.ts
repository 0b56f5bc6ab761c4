import { createInterface } from 'node:readline'
import type { VerbContext } from './verb.js'

/** True when somebody can be asked. */
export function canAsk ({ io }: VerbContext): boolean {
  return io.stdin.isTTY === true && io.stderr.isTTY === true
}

/** Asks for a yes; the end of the input is a no. Throws VerbError (130) at Ctrl-C. */
export async function confirm (ctx: VerbContext, question: string): Promise<boolean> {
  const { io: { stdin, stderr }, signal } = ctx
  stderr.write(`${question} [y/N] `)
  // Not as a terminal: readline would take Ctrl-C for itself.
  const lines = createInterface({ input: stdin, terminal: false, signal })
  try {
    for await (const line of lines) return /^y(es)?$/i.test(line.trim())
  } finally {
    lines.close()
  }
  stderr.write('\n')
  if (signal.aborted) throw ctx.fail(130, 'interrupted')
  return false
}
