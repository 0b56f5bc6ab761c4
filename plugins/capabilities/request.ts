/** Body of a call (`contract.md` 4). */
export interface CallRequest {
  call_id?: string | null
  capability_id: string
  version: string
  descriptor_revision: string
  target_node?: string | null
  timeout_seconds?: number
  payload?: unknown
  /** Size of the original request; default: the size of the payload. */
  bytes?: number
}
