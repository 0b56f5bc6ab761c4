import { systemClock } from '../api/clock.js'
import { serverEvents } from '../http/server-events.js'
import type { ServerEvent } from '../http/server-events.js'
import type { VerbContext } from './verb.js'

/** How long a stream that broke off is tried again, ms. */
const RETRY_MS = 60_000
/** It broke off, the node does not answer (yet), or is not ready. */
const PASSING = [1, 4, 7]

/**
 * Follows a stream of server-sent events until Ctrl-C. When the node goes away and comes back the stream is
 * opened again, at the path that `path` then says. Throws CliError when that takes too long.
 */
export async function followEvents (
  ctx: VerbContext, path: () => string, take: (event: Extract<ServerEvent, { kind: 'event' }>) => void
): Promise<void> {
  let heardAt = -Infinity
  await ctx.retry({
    seconds: Infinity,
    again: (error) => PASSING.includes(error.exitCode) && systemClock.mono() - heardAt < RETRY_MS,
    onWait: (error) => { ctx.err.update(`${error.message.split('\n')[0]!}; trying again`) }
  }, async () => {
    const answer = await ctx.client.open(path(), { accept: 'text/event-stream' })
    for await (const event of serverEvents(answer.bytes)) {
      heardAt = systemClock.mono()
      if (event.kind === 'event') take(event)
    }
    throw ctx.fail(1, `the node at ${ctx.client.url} ended the stream`)
  })
}
