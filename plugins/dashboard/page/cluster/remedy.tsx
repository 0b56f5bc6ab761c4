import { Opens, Sentence } from '../ui/parts.js'
import { RemoveDialog, RestartDialog } from './node-actions.js'
import type { ClusterNode, HealthReason } from '../state.js'

/** Problems that a restart of the node fixes. */
const RESTART = new Set(['event_loop_lag', 'state_not_durable', 'version_mismatch', 'event_log_unavailable'])

export function Remedy ({ node, reason }: { node: ClusterNode, reason: HealthReason }) {
  const { code, remediation } = reason
  const lost = code === 'unreachable'
  const What = lost ? RemoveDialog : RestartDialog
  return (
    <>
      {remediation !== null && <p class="remedy"><Sentence text={remediation} /></p>}
      {(lost || RESTART.has(code)) && (
        <Opens dialog={(close) => <What node={node} onClose={close} />}>
          {lost ? 'Remove it' : 'Restart it'}
        </Opens>
      )}
    </>
  )
}
