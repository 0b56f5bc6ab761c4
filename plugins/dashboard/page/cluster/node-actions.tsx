import { ask } from '../link.js'
import { useAsk, useNow } from '../ui/loading.js'
import { ConfirmButton, Dialog, Sentence, Snippet, Trouble } from '../ui/parts.js'
import { count, span } from '../ui/text.js'
import { done, ended } from '../ui/toast.js'
import { nodes } from '../known.js'
import type { ClusterNode, HealthReason } from '../state.js'
import type { ConfirmButtonProps } from '../ui/parts.js'

interface NodeProps { node: ClusterNode }

export function DrainButton ({ node, running }: NodeProps & { running: number }) {
  const drain = async (): Promise<void> => {
    done((await ask('PUT /nodes/{node}/drain', { params: [node.id] })).message)
  }
  return (
    <ConfirmButton
      needs="cluster:write" words="Drain" title={`Drain ${node.name}?`} action="Drain it" onConfirm={drain}
    >
      <p>Nothing is placed there any more, and it stays a member.</p>
      <p>
        {running === 0
          ? 'It runs nothing now.'
          : `It runs ${count(running, 'instance')}: each ends when another node serves in its place. ` +
            'What fits nowhere else goes on here.'}
      </p>
    </ConfirmButton>
  )
}

export async function undrain (node: ClusterNode): Promise<void> {
  done((await ask('DELETE /nodes/{node}/drain', { params: [node.id] })).message)
}

export function RestartButton ({ node, words }: NodeProps & { words: string }) {
  const restart = async (): Promise<void> => {
    await ask('POST /admin/restart', { query: { node_id: node.id } })
    done(`${node.name} restarts.`)
  }
  return (
    <ConfirmButton
      needs="operator" words={words} title={`Restart ${node.name}?`} action="Restart it" onConfirm={restart}
    >
      <p>It lets open requests end, then replaces its process and joins again by itself.</p>
      {node.master && <p>It is the master: another node takes over meanwhile.</p>}
    </ConfirmButton>
  )
}

type Words = Pick<ConfirmButtonProps, 'kind' | 'label' | 'onClosed' | 'words'>

interface RemoveProps extends Words {
  name: string
  /** The install id of the member. */
  id: string
}

export function RemoveButton ({ name, id, ...button }: RemoveProps) {
  const remove = async (): Promise<void> => {
    ended(`${name} is no member any more.`, await ask('DELETE /cluster/members/{id}', { params: [id] }))
  }
  return (
    <ConfirmButton
      {...button} needs="operator" title={`Remove ${name} from the cluster?`} action="Remove it for good"
      danger onConfirm={remove}
    >
      <p>Its key is refused from then on. To come back it has to join anew, with a new token.</p>
    </ConfirmButton>
  )
}

/** Problems that a restart of the node fixes. */
const RESTART = new Set(['event_loop_lag', 'state_not_durable', 'version_mismatch', 'event_log_unavailable'])

export function Remedy ({ node, reason: { code, remediation } }: NodeProps & { reason: HealthReason }) {
  return (
    <>
      {remediation !== null && <p class="remedy"><Sentence text={remediation} /></p>}
      {code === 'unreachable' && <RemoveButton words="Remove it" name={node.name} id={refOf(node)} />}
      {RESTART.has(code) && <RestartButton node={node} words="Restart it" />}
    </>
  )
}

/** The install id of a node, which survives a restart. */
export const refOf = (node: ClusterNode): string => node.identity?.nodeInstallId ?? node.id

export function RestartNotice () {
  const node = nodes.value.find(({ local }) => local)
  return (
    <div class="banner warn" role="status">
      <span>svc.yaml says something else than what is in force: this node has to restart.</span>
      {node && <RestartButton node={node} words="Restart it" />}
    </div>
  )
}

export function JoinDialog () {
  const { value, error } = useAsk('POST /cluster/join-tokens', [], { body: {} })
  const now = useNow()
  return (
    <Dialog title="Connect a machine">
      <div class="dialog-body">
        {error !== null && <Trouble error={error} />}
        {value !== null && (
          <>
            <p>Install svc there, then run:</p>
            <Snippet label="The command for the new machine" code={value.command} />
            <p class="hint">It lets one node in, for {span(Math.max(0, Date.parse(value.expires) - now))}.</p>
          </>
        )}
      </div>
    </Dialog>
  )
}
