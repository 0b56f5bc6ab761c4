/** A call as a client asks for it (`contract.md` 4). */
export interface CallRequest {
  call_id?: string | null
  capability_id: string
  version: string
  descriptor_revision: string
  target_node?: string | null
  timeout_seconds?: number
  payload?: unknown
  /** Size of the request as it arrived; the payload's own size when absent. */
  bytes?: number
}
