"""Routes as OpenFlow 1.3 rules.

`defaults` and `compiler` turn topology and plans into rules, `update` orders the change from one set of rules to another so that no packet is
lost or loops, `discovery` finds links by LLDP, `codec` knows bytes: all pure. Only `session` and `controller` speak to switches.
"""
