import type { ServerResponse } from 'node:http'
import { definePlugin } from '../../../kernel/index.js'
import { fakeNode, quickPace, sendError, sendJson } from '../../../kernel/test/cli-helpers.js'
import type { Plugin } from '../../../kernel/index.js'
import type { WaitClock } from '../../../kernel/cli/index.js'
import type { Answers, Asked, FakeNode } from '../../../kernel/test/cli-helpers.js'
import llamaCpp from '../../llama-cpp/index.js'
import placement from '../../placement/index.js'
import { createBench } from '../cli/bench.js'
import { createRun } from '../cli/run.js'
import { verbs } from '../cli/verbs.js'

export { quickPace, sendError, sendJson }

function chatVerbs (pace?: WaitClock): Plugin {
  let runs = 0
  const bench = pace === undefined
    ? verbs.bench
    : { ...verbs.bench, load: async () => ({ default: createBench(pace, () => `run${++runs}-`) }) }
  const run = pace === undefined
    ? verbs.run : { ...verbs.run, load: async () => ({ default: createRun(pace) }) }
  return definePlugin({
    name: 'chat-verbs', version: '1.0.0', kernel: '^1.0.0', summary: 'The verbs.',
    verbs: { ...verbs, bench, run }
  }, () => ({}))
}

export type { Answers, FakeNode as Node }

/** Starts a fake node; the command line has the verbs of `plugin` and of the engines. */
export async function nodeOf (
  t: { teardown (fn: () => unknown): void }, answers: Answers, plugin?: Plugin
): Promise<FakeNode> {
  const node: FakeNode = await fakeNode(t, {
    // `svc run` first asks whether the model is ready; these tests do not record that request.
    'GET /v1/models': (response, one) => {
      node.asked.splice(node.asked.indexOf(one), 1)
      sendError(response, 404, 'not_found')
    },
    ...answers
  }, (pace) => [plugin ?? chatVerbs(pace), placement, llamaCpp])
  return node
}

export const data = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`

export const chunk = (content: string, more: object = {}): object => ({
  id: 'c1', object: 'chat.completion.chunk',
  choices: [{ index: 0, delta: { content }, finish_reason: null, ...more }]
})

/** The last chunk of a chat stream. */
export const end = (finish = 'stop'): object => ({
  id: 'c1', object: 'chat.completion.chunk', choices: [{ index: 0, delta: {}, finish_reason: finish }],
  usage: { prompt_tokens: 3, completion_tokens: 5, total_tokens: 8 }
})

export const STATS = ': generation_stats {"prompt_tps":120.04,"generation_tps":41.25,"prompt_tokens":3,' +
  '"generation_tokens":5,"peak_memory_usage":{"inBytes":1}}\n\n'

/** A complete stream with these texts. */
export const stream = (...texts: string[]): string =>
  ': keep-alive\n\n: command_id c1\n\n' + texts.map((text) => data(chunk(text))).join('') + data(end()) +
  STATS + 'data: [DONE]\n\n'

/** Sends the headers of a stream that stays open. */
export function begin (response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  response.flushHeaders()
}

/** The messages in a request as `role: text`. */
export const messagesOf = ({ body }: Asked): string[] =>
  (body as { messages: { role: string, content: string }[] }).messages
    .map(({ role, content }) => `${role}: ${content}`)
