/** Handlers of the routes that speak other APIs: each request becomes a chat request. */
import { anthropicFraming, MessageFormatter, wholeMessage } from './anthropic-format.js'
import { fromAnthropic } from './anthropic-task.js'
import { answerStream, answerWhole } from './answer.js'
import { ResponseFormatter, responsesFraming, wholeResponse } from './responses-format.js'
import { fromResponses } from './responses-task.js'
import { chatTask } from './task.js'
import type { RouteRequest } from '../../../kernel/index.js'
import type { ApiParts } from './openai-routes.js'
import type { MessagesBody } from './anthropic-task.js'
import type { ResponsesBody } from './responses-task.js'

/** POST /v1/messages. */
export async function messages (parts: ApiParts, request: RouteRequest, body: MessagesBody): Promise<void> {
  const asked = chatTask(fromAnthropic(body), parts.limits, parts.aliases)
  if (body.stream !== true) {
    await answerWhole(parts, request, asked, wholeMessage)
    return
  }
  await answerStream(parts, request, asked, {
    framing: anthropicFraming, formatter: (facts) => new MessageFormatter(facts)
  })
}

/** POST /v1/responses. */
export async function responses (parts: ApiParts, request: RouteRequest, body: ResponsesBody): Promise<void> {
  const asked = chatTask(fromResponses(body), parts.limits, parts.aliases)
  if (body.stream !== true) {
    await answerWhole(parts, request, asked, (answer, facts) => wholeResponse(answer, facts, body))
    return
  }
  await answerStream(parts, request, asked, {
    framing: responsesFraming, formatter: (facts) => new ResponseFormatter(facts, body)
  })
}
