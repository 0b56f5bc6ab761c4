import { nameOf } from '../known.js'
import { linkTo } from '../route.js'
import { Rows } from '../ui/list.js'
import { Badge, Progress, RowText } from '../ui/parts.js'
import { bytes, joined, percent, rate, span } from '../ui/text.js'
import type { Transfer } from '../state.js'

export function amounts (
  done: number, total: number, speed: number | null = null, etaMs: number | null = null
): string {
  return joined([
    total === 0 ? (done > 0 ? bytes(done) : 'waiting') : `${bytes(done)} of ${bytes(total)}`,
    total === 0 ? null : percent(Math.floor(100 * done / total) / 100),
    speed === null || speed === 0 ? null : rate(speed),
    etaMs === null ? null : `${span(Math.max(1000, etaMs))} left`
  ])
}

export const TransferList = ({ list }: { list: readonly Transfer[] }) => (
  <Rows
    items={list} keyOf={({ nodeId, modelId }) => `${nodeId} ${modelId}`}
    row={(one) => <TransferRow one={one} />}
  />
)

export function TransferRow ({ one }: { one: Transfer }) {
  const { modelId, nodeId, status, error, done, total } = one
  const name = nameOf(nodeId)
  return (
    <>
      <RowText hint={error ?? amounts(done, total, one.bytesPerSecond, one.etaMs)}>
        <a href={linkTo('models', modelId)}>{modelId}</a> to <a href={linkTo('cluster', nodeId)}>{name}</a>
      </RowText>
      {status === 'failed'
        ? <Badge level="error">failed</Badge>
        : <Progress label={`Copy of ${modelId} to ${name}`} done={done} total={total} />}
    </>
  )
}
