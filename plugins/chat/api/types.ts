import type { Clock, ErrorBody, Logger, LocalApi, RouteRequest } from '../../../kernel/index.js'
import type { Invocations } from '../../capabilities/service.js'
import type { Instances, Runners, TaskRequest } from '../../runners/service.js'
import type { Models } from '../../staging/service.js'
import type { Thread } from './anthropic-body.js'
import type { Rules } from './errors.js'
import type { ResponseStore } from './response-store.js'
import type { DerivedModels } from './derived-models.js'
import type { Collector, EndPiece, PieceOptions, TextPiece, Totals } from './pieces.js'
import type { KeptResponse } from './responses-body.js'

/** Dependencies of the route handlers. */
export interface ApiParts extends Rules {
  runners: Runners
  invocations: Invocations
  clock: Clock
  /** Stored conversations and answers. */
  threads: ResponseStore<Thread>
  responses: ResponseStore<KeptResponse>
  /** This node's own API, called on behalf of the caller. */
  own: LocalApi
  /** Undefined if no plugin provides them. */
  instances: Instances | undefined
  models: Models | undefined
  /** Derived models of the whole cluster, by name. */
  derivedModels: DerivedModels
  /** Models that requests of Ollama's clients are loading. */
  loading: Map<string, Promise<void>>
  /** Start of the node, Unix ms. */
  startedMs: number
  log: Logger
  /** A new id of letters and digits. */
  newId: () => string
}

/** `Body` is the schema of the request body. */
export type Handler<Body> = (parts: ApiParts, request: RouteRequest<{ readonly body: Body }>) => Promise<void>

/** A prompt as an engine task, with the options to read its answers. */
export interface Prompt { task: TaskRequest['task'], reading: PieceOptions }

/** A request for text, with one or more prompts. */
export interface TextRequest extends TaskRequest, Prompt {
  /** Model name in the answer, if it differs from the model id. */
  shownAs?: string
  /** Time spent on loading the model for this request, ms. */
  loadMs?: number
  /** Further prompts; each prompt has `answers` answers. */
  more?: { prompts: readonly Prompt[], answers: number }
}

export interface AnswerMetadata {
  /** The command id. */
  id: string
  model: string
  /** Unix seconds. */
  created: number
  /** Since the request was accepted, and the part of it that loaded the model; monotonic ms. */
  elapsedMs: () => number
  loadMs: number
  newId: () => string
}

/** Turns pieces into the values of an API's answer. */
export interface Formatter {
  begin (promptTokens: number): object[]
  piece (piece: TextPiece | EndPiece): object[]
  end (totals: Totals): object[]
}

export interface Framing {
  contentType: string
  begin (commandId: string): string
  value (value: object): string
  end (totals: Totals): string
  /** Keep-alive text. */
  beat: string
  failed (error: ErrorBody): string
}

/** Response formats of an API: streamed and whole. */
export interface AnswerFormat {
  framing: Framing
  formatter: (facts: AnswerMetadata) => Formatter
  whole: (answer: Collector, facts: AnswerMetadata) => object
}
