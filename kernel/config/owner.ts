import type { JsonSchema } from '../api/schema.js'

export interface ConfigOwner {
  readonly name: string
  /** Schema of `plugins.<name>`. */
  readonly config?: JsonSchema
  readonly settings?: Readonly<Record<string, JsonSchema>>
  readonly variables?: Readonly<Record<string, string>>
  /** False for a third-party plugin, which svc.yaml names by `module`. */
  readonly bundled: boolean
}
